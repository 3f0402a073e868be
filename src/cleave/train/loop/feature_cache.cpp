#include "cleave/train/loop/feature_cache.h"

#include <algorithm>
#include <memory>
#include <span>

#include "cleave/base/hash.h"
#include "cleave/base/threads.h"
#include "cleave/comm/together.h"
#include "cleave/data/image/feature_store.h"
#include "cleave/data/image/image_texts.h"
#include "cleave/engine/decode/image_encoder.h"
#include "cleave/engine/stage/initial_weights.h"
#include "cleave/model/vlm_parts.h"
#include "cleave/ops/elementwise.h"
#include "cleave/ops/instruction_set.h"
#include "cleave/tensor/bf16.h"
#include "cleave/train/save/load_weights.h"
#include "cleave/train/step/numerics.h"
#include "cleave/train/step/trainer.h"

namespace cleave::train {
namespace {

void draw_tower(std::uint64_t seed, engine::ImageEncoder& encoder) {
  for (std::size_t w = 0; w < encoder.weights().size(); ++w) {
    const engine::Decoder::Weight& weight = encoder.weights()[w];
    std::vector<float> values(static_cast<std::size_t>(weight.value.elements()));
    engine::InitialWeights(seed, weight.name, encoder.inits()[w]).draw(0, values);
    const View drawn(reinterpret_cast<std::byte*>(values.data()), DType::F32,
                     {weight.value.elements()});
    ops::copy(encoder.compute(), drawn, weight.value.reshaped({weight.value.elements()}));
  }
}

/// The frozen tower: one chain of layers for each feature that the model reads of it.
class TowerChains {
 public:
  TowerChains(const Config& config, const Start& start) : config_(config) {
    const std::filesystem::path& from =
        start.resume_from.empty() ? start.init_from : start.resume_from;
    const std::int64_t cores = all_threads();
    for (const model::TowerFeature& feature : model::tower_features(config.model)) {
      encoders_.push_back(std::make_unique<engine::ImageEncoder>(
          config.model,
          engine::ImageEncoder::Options{
              .dtype = config.train.dtype,
              .last = feature.segment,
              .threads =
                  static_cast<int>(std::min(cores, config.devices.threads * config.devices.count)),
              .arithmetic = arithmetic_of(config),
              .budget = config.devices.memory.empty()
                            ? std::nullopt
                            : std::optional(std::ranges::max(config.devices.memory))}));
      load(from, *encoders_.back());
    }
  }

  /// A hash of the weights, and of how they are computed with.
  std::uint64_t hash() const {
    Hasher hasher;
    hasher.add(describe_bits(arithmetic_of(config_), config_.train.dtype, ops::instruction_set()));
    for (const auto& encoder : encoders_) {
      for (const engine::Decoder::Weight& weight : encoder->weights()) {
        hasher.add(weight.name);
        hasher.add({weight.value.bytes(), static_cast<std::size_t>(weight.value.byte_count())});
      }
    }
    return hasher.digest();
  }

  /// All features of an image, one after another.
  void compute(std::span<const float> patches, std::vector<std::byte>& features) {
    features.clear();
    for (const auto& encoder : encoders_) {
      const View x = encoder->patches();
      for (std::size_t i = 0; i < patches.size(); ++i) {
        if (x.dtype() == DType::F32)
          x.as<float>()[i] = patches[i];
        else
          x.as<BFloat16>()[i] = to_bf16(patches[i]);
      }
      const View y = encoder->encode();
      features.insert(features.end(), y.bytes(), y.bytes() + y.byte_count());
    }
  }

 private:
  void load(const std::filesystem::path& from, engine::ImageEncoder& encoder) {
    if (from.empty()) return draw_tower(static_cast<std::uint64_t>(config_.train.seed), encoder);
    const checkpoint::CheckpointReader reader(from, checkpoint::Load::WeightsOnly);
    load_weights(reader, MergedWeights(config_, reader),
                 {encoder.weights(), encoder.staging(), &encoder.compute()});
  }

  const Config& config_;
  std::vector<std::unique_ptr<engine::ImageEncoder>> encoders_;
};

/// A hash of the images of a set and of what is made of them.
std::uint64_t feature_key(const data::ImageTexts& texts, std::uint64_t tower, std::int64_t patch) {
  Hasher hasher;
  const auto add = [&](auto number) { hasher.add(std::as_bytes(std::span(&number, 1))); };
  add(tower);
  add(texts.digest());
  add(patch);
  for (const double mean : texts.description().mean) add(mean);
  for (const double deviation : texts.description().deviation) add(deviation);
  return hasher.digest();
}

data::FeatureShape feature_shape(const Config& config, const data::ImageTexts& texts,
                                 std::uint64_t key) {
  data::FeatureShape shape{
      .key = key, .images = texts.all_images(), .element_bytes = size_of(config.train.dtype)};
  for (const model::TowerFeature& feature : model::tower_features(config.model))
    shape.values.push_back(feature.rows * config.model.vision.hidden);
  return shape;
}

std::filesystem::path feature_file(const data::ImageTexts& texts, const data::FeatureShape& shape) {
  return texts.path().string() + ".features-" + to_hex(shape.key);
}

/// Computes what is not there yet, and tells how far it has come.
void fill_features(const data::ImageTexts& texts, const data::FeatureShape& shape,
                   TowerChains& tower, RunObserver& observer) {
  FeatureNews news{
      .path = feature_file(texts, shape), .bytes = shape.file_bytes(), .images = shape.images};
  if (std::filesystem::exists(news.path)) {
    news.done = news.known = shape.images;
    return observer.on_features(news);
  }
  data::FeatureWriter writer(news.path, shape);
  news.done = news.known = writer.resumed();
  observer.on_features(news);
  std::vector<std::uint8_t> room(static_cast<std::size_t>(2 * texts.room()));
  std::vector<float> patches;
  std::vector<std::byte> features;
  std::int64_t number = 0;
  for (std::int64_t sample = 0; sample < texts.size(); ++sample) {
    const std::int64_t images = texts.images(sample);
    number += images;
    if (number <= news.known) continue;
    patches.resize(static_cast<std::size_t>(images * texts.room()));
    texts.read(sample, "patches", {.values = patches, .room = room});
    for (std::int64_t image = 0; image < images; ++image) {
      if (number - images + image < news.known) continue;
      tower.compute(std::span(patches).subspan(static_cast<std::size_t>(image * texts.room()),
                                               static_cast<std::size_t>(texts.room())),
                    features);
      writer.add(features);
      ++news.done;
      observer.on_features(news);
    }
  }
  writer.finish();
}

}  // namespace

void check_cached_tower(const Config& config, FileAccess files) {
  if (!config.model.vision.cached) return;
  require(
      files == FileAccess::Shared && config.edge.client_count() == 0,
      "data.cache keeps what a tower gives in a file beside the set, and the devices of this run "
      "read no common files; leave it out");
  Config whole = config;
  whole.model.vision.cached = false;
  for (const SegmentSpec& segment : model_of(whole).segments) {
    if (segment.module != "vision") continue;
    for (const LayerSpec& layer : segment.layers) {
      for (const ParameterSpec& parameter : layer.parameters)
        require(!parameter.trainable, "data.cache keeps what the tower of images gives, and ",
                parameter.name,
                " learns; name what learns in model.train, such as [\"projector\", \"language\"], "
                "or leave data.cache out");
    }
  }
}

void provide_features(const Config& config, const Start& start, data::Data& data,
                      comm::Communicator& processes, RunObserver& observer) {
  if (!config.model.vision.cached || start.finished) return;
  const std::vector<data::ImageTexts*>& sets = data.image_texts();
  std::string keys;  // of the sets, one after another
  comm::together(processes, [&] {
    if (processes.rank() != 0) return;
    TowerChains tower(config, start);
    const std::uint64_t hash = tower.hash();
    for (const data::ImageTexts* texts : sets) {
      const std::uint64_t key = feature_key(*texts, hash, config.model.patch);
      fill_features(*texts, feature_shape(config, *texts, key), tower, observer);
      keys += to_hex(key);
    }
  });
  comm::broadcast(processes, keys);
  comm::together(processes, [&] {
    for (std::size_t s = 0; s < sets.size(); ++s) {
      const std::uint64_t key = std::stoull(keys.substr(16 * s, 16), nullptr, 16);
      const data::FeatureShape shape = feature_shape(config, *sets[s], key);
      sets[s]->read_features(
          std::make_unique<const data::FeatureStore>(feature_file(*sets[s], shape), shape));
    }
  });
}

}  // namespace cleave::train
