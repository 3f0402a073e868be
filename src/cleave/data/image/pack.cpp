#include "cleave/data/image/pack.h"

#include <algorithm>
#include <atomic>
#include <utility>

#include "cleave/base/check.h"
#include "cleave/base/hash.h"
#include "cleave/base/threads.h"
#include "cleave/base/utf8.h"
#include "cleave/data/image/image_set_format.h"

namespace cleave::data {
namespace {

// Samples between two points from which an interrupted run can go on, for each thread.
constexpr std::int64_t kSamplesPerRound = 128;

/// Everything that decides what is written. Names stand for the files: a file that changes while
/// packing is interrupted is not noticed.
std::uint64_t fingerprint_of(const SampleSource& source, const PackOptions& options) {
  Hasher hasher;
  hasher.add(to_json(options.shape));
  hasher.add(detail::concat(options.input, "|", options.filter->name, "|",
                            static_cast<int>(options.fit), "|", static_cast<int>(options.bad), "|",
                            source.size()));
  for (std::int64_t i = 0; i < source.size(); ++i) hasher.add(source.name(i));
  return hasher.digest();
}

struct PackedSample {
  Sample sample;
  std::vector<std::uint8_t> pixels;
  std::string complaint;  // empty: it can be used
};

PackedSample pack_one(const SampleSource& source, std::int64_t index, const PackOptions& options) {
  PackedSample packed;
  try {
    packed.sample = source.read(index);
    packed.pixels = packed_pixels(packed.sample, source.name(index), options);
  } catch (const UserError& error) {
    packed.complaint = error.what();
  }
  return packed;
}

/// Samples [first, first + count), by all threads.
std::vector<PackedSample> pack_round(const SampleSource& source, std::int64_t first,
                                     std::int64_t count, const PackOptions& options) {
  std::vector<PackedSample> packed(static_cast<std::size_t>(count));
  std::atomic<std::int64_t> next = 0;
  run_on_threads(options.threads, [&](int) {
    for (std::int64_t i = next++; i < count; i = next++)
      packed[static_cast<std::size_t>(i)] = pack_one(source, first + i, options);
  });
  return packed;
}

void pack_rest(const SampleSource& source, const PackOptions& options, const PackObserver& observer,
               ImageSetWriter& writer) {
  const std::int64_t round = kSamplesPerRound * options.threads;
  for (std::int64_t first = writer.resumed(); first < source.size(); first += round) {
    const std::int64_t count = std::min(round, source.size() - first);
    for (const PackedSample& packed : pack_round(source, first, count, options)) {
      if (packed.complaint.empty()) {
        writer.add(std::as_bytes(std::span(packed.pixels)), packed.sample);
        continue;
      }
      require(options.bad == BadSamples::Skip, packed.complaint,
              "; mend it, or skip samples that cannot be used with --skip-bad");
      observer.on_bad(packed.complaint);
      writer.skip();
    }
    observer.on_done(first + count);
  }
}

}  // namespace

std::vector<std::uint8_t> packed_pixels(const Sample& sample, const std::string& name,
                                        const PackOptions& options) {
  const SetDescription& shape = options.shape;
  require(std::ssize(sample.images) <= shape.capacity, name, " has ", sample.images.size(),
          " images, and a sample of the set has room for ", shape.capacity, " (raise --capacity)");
  std::vector<std::uint8_t> pixels;
  for (const Image& image : sample.images) {
    const ResizedPart part =
        fitted(image.width, image.height, shape.width, shape.height, options.fit);
    const Image fit = resize(with_channels(image, shape.channels), part, *options.filter);
    pixels.insert(pixels.end(), fit.pixels.begin(), fit.pixels.end());
  }
  return pixels;
}

PackReport pack_samples(const SampleSource& source, const std::filesystem::path& out,
                        const PackOptions& options, const PackObserver& observer) {
  for (const std::string& name : source.classes())
    require(is_utf8(name), "the class \"", printable_line(name),
            "\" has a name that is not UTF-8; rename it");
  ImageSetWriter writer(out, options.shape.image_bytes(), fingerprint_of(source, options));
  PackReport report{.set = options.shape, .resumed = writer.resumed()};
  report.set.classes = source.classes();
  report.set.fit = options.fit == Fit::Crop ? "crop" : "stretch";
  report.set.filter = options.filter->name;
  try {
    pack_rest(source, options, observer, writer);
    report.set = writer.finish(std::move(report.set));
  } catch (const UserError&) {
    writer.abandon();
    throw;
  }
  report.samples = source.size() - report.set.skipped;
  return report;
}

}  // namespace cleave::data
