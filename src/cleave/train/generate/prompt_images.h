#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "cleave/checkpoint/reader.h"
#include "cleave/data/image/image_texts.h"
#include "cleave/tensor/view.h"
#include "cleave/train/config/config.h"

namespace cleave::train {

/// What reading images needs of a device.
struct ImageReading {
  int threads = 1;
  std::optional<std::int64_t> budget = {};  ///< bytes
};

/// The images that stand in every prompt, as rows of the model's text.
class PromptImages {
 public:
  /// No images.
  PromptImages() = default;

  /// Reads the files, resized and normalised as `cleave data pack` did for the run's own set, and
  /// turns them into rows. Throws UserError: a model that reads no images, a file that is none, a
  /// set that cannot be read; DoesNotFit.
  PromptImages(const std::vector<std::string>& files,
               const checkpoint::CheckpointReader& checkpoint, const Config& config,
               const ImageReading& reading);

  /// What goes into the text, each [images · rows of an image, hidden] in the model's dtype: the
  /// rows that stand in it, then those that are added after the first language layers. Nothing if
  /// there are no images.
  std::vector<ConstView> features() const;

 private:
  std::vector<std::vector<std::byte>> bytes_;  // [feature]
  DType dtype_ = DType::F32;
  Shape shape_;
};

/// A prompt about `images` images, its tokens checked. Throws UserError.
data::PlacedText placed_prompt(const std::string& prompt, std::int64_t images, const Config& config,
                               const data::Tokenizer* tokenizer);

}  // namespace cleave::train
