#pragma once

#include "cleave/model/family.h"
#include "cleave/train/step/random_source.h"

namespace cleave::testing {

inline constexpr std::int64_t kVocabulary = 61;  // no shards divide it
inline constexpr std::int64_t kSequence = 16;

/// Small enough for hundreds of layouts; a Llama's heads share keys and values, a ViT tells as many
/// classes apart as the others have tokens.
inline ModelShape tiny_shape(const model::Family* kind, std::int64_t layers = 6) {
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

inline Graph tiny_model(const model::Family* kind, DType dtype, std::int64_t layers = 6) {
  const std::int64_t sequences =
      kind->reads_images ? 4 : 1;  // shards divide the rows of four images
  return model::graph_of(tiny_shape(kind, layers),
                         {.sequences = sequences, .sequence = kSequence, .dtype = dtype});
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
