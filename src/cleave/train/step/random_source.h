#pragma once

#include <cstdint>

#include "cleave/base/philox.h"
#include "cleave/engine/run/microbatch_source.h"

namespace cleave::train {

/// Random tokens, the same for a seed: work without data, for benchmarks and profiles.
class RandomSource : public engine::MicrobatchSource {
 public:
  RandomSource(std::uint64_t seed, std::int64_t vocabulary)
      : random_(seed, "tokens"), vocabulary_(static_cast<std::uint64_t>(vocabulary)) {}

  void load_tokens(int index, View tokens) override { load(index, tokens, 0); }
  void load_targets(int index, View targets) override { load(index, targets, 1); }

 private:
  void load(int index, View ids, std::uint64_t shift) const {
    const std::uint64_t first = static_cast<std::uint64_t>(index) * (1u << 20) + shift;
    for (std::int64_t i = 0; i < ids.elements(); ++i) {
      ids.as<std::int32_t>()[i] = static_cast<std::int32_t>(random_.below(vocabulary_, first + i));
    }
  }

  Philox random_;
  std::uint64_t vocabulary_;
};

}  // namespace cleave::train
