#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>

#include "cleave/data/image/image_set.h"
#include "cleave/data/image/resize.h"
#include "cleave/data/image/sample_source.h"

namespace cleave::data {

/// What to do with a sample that cannot be used.
enum class BadSamples : std::uint8_t { Stop, Skip };

struct PackOptions {
  SetDescription shape;  ///< size, channels, capacity and normalising of what is packed
  Fit fit = Fit::Crop;
  const ResizeFilter* filter = nullptr;
  int threads = 1;
  BadSamples bad = BadSamples::Stop;
  std::string input = {};  ///< what the source was made from
};

/// Hears of the work while it goes on, from one thread at a time.
struct PackObserver {
  std::function<void(std::int64_t samples)> on_done;        ///< dealt with so far
  std::function<void(const std::string& sentence)> on_bad;  ///< a sample that is skipped
};

struct PackReport {
  SetDescription set;
  std::int64_t samples = 0;
  std::int64_t resumed = 0;  ///< of them and of those skipped, packed by an earlier run
};

/// Packs all samples of a source, in order. The file is the same for any number of threads, and
/// whether the work was interrupted or not. Throws UserError, and leaves nothing behind, if a
/// sample cannot be used (unless those are skipped) or none is left.
PackReport pack_samples(const SampleSource& source, const std::filesystem::path& out,
                        const PackOptions& options, const PackObserver& observer);

/// The images of a sample as they are packed, one after another. Throws UserError if there are more
/// than the capacity.
std::vector<std::uint8_t> packed_pixels(const Sample& sample, const std::string& name,
                                        const PackOptions& options);

}  // namespace cleave::data
