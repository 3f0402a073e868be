#include "cleave/train/generate/prompt_images.h"

#include "cleave/base/check.h"
#include "cleave/data/image/pack.h"
#include "cleave/data/image/patch_reader.h"
#include "cleave/engine/decode/image_encoder.h"
#include "cleave/tensor/bf16.h"
#include "cleave/train/generate/image_preparation.h"
#include "cleave/train/save/load_weights.h"
#include "cleave/train/step/numerics.h"

namespace cleave::train {
namespace {

/// As the images that the model learned from were packed; of a Hugging Face directory as it says.
data::PackOptions preparation_of(const checkpoint::CheckpointReader& checkpoint,
                                 const Config& config) {
  if (checkpoint.foreign()) return image_preparation(checkpoint.path(), config.model);
  require(!config.data.path.empty(),
          "the run does not say which packed set it learned from (data.path), so nobody knows how "
          "its images are normalised");
  return {.shape = data::ImageSet(config.data.path[0].path).description(),
          .filter = &data::find_resize_filter("bicubic")};
}

void fill_patches(std::span<const std::uint8_t> pixels, const data::SetDescription& set,
                  std::int64_t patch, View patches) {
  const data::Normaliser normaliser(set);
  std::vector<float> values(static_cast<std::size_t>(patches.elements()));
  const auto image = static_cast<std::size_t>(set.image_bytes());
  for (std::size_t first = 0; first < values.size(); first += image)
    data::to_patches(pixels.subspan(first, image), set, normaliser, patch,
                     std::span(values).subspan(first, image));
  for (std::size_t i = 0; i < values.size(); ++i) {
    if (patches.dtype() == DType::F32) {
      patches.as<float>()[i] = values[i];
    } else {
      patches.as<BFloat16>()[i] = to_bf16(values[i]);
    }
  }
}

}  // namespace

PromptImages::PromptImages(const std::vector<std::string>& files,
                           const checkpoint::CheckpointReader& checkpoint, const Config& config,
                           const ImageReading& reading) {
  if (files.empty()) return;
  const ModelShape& shape = config.model;
  data::PackOptions options = preparation_of(checkpoint, config);
  options.shape.capacity = std::ssize(files);
  data::Sample sample;
  for (const std::string& file : files) sample.images.push_back(data::read_image(file));
  const std::vector<std::uint8_t> pixels = data::packed_pixels(sample, "the prompt", options);
  for (std::int64_t k = -1; k < shape.vision.deepstack.count; ++k) {
    engine::ImageEncoder encoder(shape, {.dtype = config.train.dtype,
                                         .images = std::ssize(files),
                                         .last = k < 0 ? "projector" : detail::concat("merger ", k),
                                         .threads = reading.threads,
                                         .arithmetic = arithmetic_of(config),
                                         .budget = reading.budget});
    load_weights(checkpoint, MergedWeights(config, checkpoint),
                 {encoder.weights(), encoder.staging(), &encoder.compute()});
    fill_patches(pixels, options.shape, shape.patch, encoder.patches());
    const View rows = encoder.encode();
    dtype_ = rows.dtype();
    shape_ = rows.shape();
    bytes_.emplace_back(rows.bytes(), rows.bytes() + rows.byte_count());
  }
}

std::vector<ConstView> PromptImages::features() const {
  std::vector<ConstView> views;
  for (const std::vector<std::byte>& bytes : bytes_)
    views.emplace_back(bytes.data(), dtype_, shape_);
  return views;
}

data::PlacedText placed_prompt(const std::string& prompt, std::int64_t images, const Config& config,
                               const data::Tokenizer* tokenizer) {
  const data::ChatTemplate& own = config.data.chat;
  const data::ChatTemplate* chat = own.assistant.empty() ? data::chat_template_of(tokenizer) : &own;
  data::PlacedText placed = data::image_prompt(
      prompt, images, {.tokenizer = tokenizer, .chat = chat}, data_query(config).images);
  for (const std::int32_t token : placed.tokens) {
    require(token >= 0 && token < config.model.vocab, "the prompt has token ", token,
            ", and the model's vocabulary ends at ", config.model.vocab - 1);
  }
  return placed;
}

}  // namespace cleave::train
