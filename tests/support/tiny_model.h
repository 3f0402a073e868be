#pragma once

#include "cleave/model/family.h"
#include "cleave/train/step/random_source.h"

namespace cleave::testing {

inline constexpr std::int64_t kVocabulary = 61;  // no shards divide it
inline constexpr std::int64_t kSequence = 16;

/// Small enough for hundreds of layouts; a Llama's heads share keys and values, a ViT tells as many
/// classes apart as the others have tokens, and a vlm has two of its layers in a tower.
inline ModelShape tiny_shape(const model::Family* kind, std::int64_t layers = 6) {
  if (kind == &model::vlm)
    return {.kind = kind,
            .layers = layers - 2,
            .hidden = 32,
            .heads = 4,
            .kv_heads = 2,
            .ffn = 64,
            .vocab = kVocabulary,
            .context = kSequence,
            .tie_embeddings = false,
            .image = 8,
            .patch = 4,
            .channels = 3,
            .gelu = GeluForm::Quick,
            .vision = {.layers = 3, .hidden = 16, .heads = 4, .ffn = 32, .class_token = true}};
  if (kind->reads_images)
    return {.kind = kind,
            .layers = layers,
            .hidden = 32,
            .heads = 4,
            .kv_heads = 4,
            .ffn = 64,
            .vocab = kVocabulary,
            .context = 5,
            .image = 8,
            .patch = 4,
            .channels = 3,
            .classes = kVocabulary,
            .gelu = GeluForm::Exact};
  const bool llama = kind == &model::llama;
  return {.kind = kind,
          .layers = layers,
          .hidden = 32,
          .heads = 4,
          .kv_heads = llama ? 2 : 4,
          .ffn = 64,
          .vocab = kVocabulary,
          .context = kSequence,
          .tie_embeddings = !llama};
}

/// A vlm whose three vision layers feed as many language layers.
inline Graph tiny_deepstack(DType dtype) {
  ModelShape shape = tiny_shape(&model::vlm);
  shape.vision.layers = 4;
  for (const std::int64_t layer : {0, 1, 2}) shape.vision.deepstack.push_back(layer);
  return model::graph_of(shape,
                         {.sequences = 1, .sequence = kSequence, .dtype = dtype, .images = 4});
}

inline Graph tiny_model(const model::Family* kind, DType dtype, std::int64_t layers = 6) {
  // Shards divide the rows of four images, which one text has where there are both.
  const bool both = kind->reads_images && kind->reads_tokens;
  return model::graph_of(tiny_shape(kind, layers), {.sequences = kind->reads_tokens ? 1 : 4,
                                                    .sequence = kSequence,
                                                    .dtype = dtype,
                                                    .images = both ? 4 : 1});
}

/// The microbatches of a replica: numbers [first, …) of the whole step's.
class ReplicaSource : public train::RandomSource {
 public:
  ReplicaSource(int first, std::int64_t step)
      : train::RandomSource(static_cast<std::uint64_t>(step), kVocabulary), first_(first) {}
  void load(int index, std::string_view input, View ids) override {
    RandomSource::load(first_ + index, input, ids);
  }

 private:
  int first_;
};

}  // namespace cleave::testing
