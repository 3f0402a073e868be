#pragma once

#include <algorithm>
#include <cstdint>

#include "cleave/base/philox.h"
#include "cleave/engine/run/microbatch_source.h"
#include "cleave/spec/graph.h"
#include "cleave/spec/layers.h"
#include "cleave/tensor/bf16.h"

namespace cleave::train {

/// Random tokens, labels and values, the same for a seed: work without data, for benchmarks and
/// profiles.
class RandomSource : public engine::MicrobatchSource {
 public:
  RandomSource(std::uint64_t seed, std::int64_t vocabulary)
      : random_(seed, "tokens"), vocabulary_(static_cast<std::uint64_t>(vocabulary)) {}

  /// Ids are below what every input that has some allows; all microbatches have as many items.
  RandomSource(std::uint64_t seed, const Graph& model, std::int64_t items = kAll)
      : RandomSource(seed, ids_below(model)) {
    items_ = items;
  }

  std::int64_t items(int /*index*/) const override { return items_; }

  void load(int index, std::string_view input, View tensor) override {
    const std::uint64_t shift = input == "targets" ? 1 : 0;
    const std::uint64_t first = static_cast<std::uint64_t>(index) * (1u << 20) + shift;
    for (std::int64_t i = 0; i < tensor.elements(); ++i) {
      if (input == spec::kDocuments) {  // every sequence is one
        tensor.as<std::int32_t>()[i] = 0;
      } else if (tensor.dtype() == DType::I32) {
        tensor.as<std::int32_t>()[i] =
            static_cast<std::int32_t>(random_.below(vocabulary_, first + i));
      } else if (tensor.dtype() == DType::F32) {
        tensor.as<float>()[i] = random_.normal(first + i);
      } else {
        tensor.as<BFloat16>()[i] = to_bf16(random_.normal(first + i));
      }
    }
  }

 private:
  static std::int64_t ids_below(const Graph& model) {
    std::int64_t below = 0;
    for (const Graph::Input& input : model.inputs)
      if (input.below > 0) below = below == 0 ? input.below : std::min(below, input.below);
    return std::max<std::int64_t>(below, 1);
  }

  Philox random_;
  std::uint64_t vocabulary_;
  std::int64_t items_ = kAll;
};

}  // namespace cleave::train
