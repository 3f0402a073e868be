#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <utility>

#include "cleave/data/query.h"
#include "cleave/data/samples.h"

namespace cleave::data {

/// Samples that lie with their owner: everybody else knows what it has announced of them, which is
/// what the order of samples and the mean of their losses depend on.
class AnnouncedSamples final : public Samples {
 public:
  AnnouncedSamples(const Announced& announced, std::string owner)
      : announced_(announced), owner_(std::move(owner)) {}

  std::int64_t size() const override { return announced_.samples; }
  const std::filesystem::path& path() const override { return owner_; }
  std::uint64_t digest() const override { return announced_.digest; }
  std::int64_t targets(std::int64_t first, std::int64_t end) const override {
    return (end - first) * announced_.targets;
  }

  /// They are not here: throws InternalError.
  void read(std::int64_t sample, std::string_view input, const SampleRow& row) const override;

 private:
  Announced announced_;
  std::filesystem::path owner_;  ///< its name stands where the path of a file would
};

/// What an owner tells the others of its samples. Throws UserError if they do not all have the same
/// number of tokens or labels to predict: that number would have to be told for each of them.
Announced announce(const Samples& samples);

}  // namespace cleave::data
