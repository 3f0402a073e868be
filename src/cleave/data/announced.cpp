#include "cleave/data/announced.h"

#include "cleave/base/check.h"

namespace cleave::data {

void AnnouncedSamples::read(std::int64_t sample, std::string_view input,
                            const SampleRow& /*row*/) const {
  CLEAVE_CHECK(false, "\"", input, "\" of sample ", sample, " is with ", owner_.string(), " alone");
}

Announced announce(const Samples& samples) {
  Announced announced{
      .samples = samples.size(), .targets = samples.targets(0, 1), .digest = samples.digest()};
  for (std::int64_t sample = 0; sample < announced.samples; ++sample) {
    const std::int64_t targets = samples.targets(sample, sample + 1);
    require(targets == announced.targets && samples.images(sample) == 0, samples.path().string(),
            " has samples with different numbers of tokens to predict, ", announced.targets,
            " and ", targets,
            ", or images in texts, and its owner cannot tell the others of each; take "
            "plain text, or classes of images");
  }
  return announced;
}

}  // namespace cleave::data
