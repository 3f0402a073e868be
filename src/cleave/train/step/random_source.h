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

  void load(int index, std::string_view input, View ids) override {
    const std::uint64_t shift = input == "targets" ? 1 : 0;
    const std::uint64_t first = static_cast<std::uint64_t>(index) * (1u << 20) + shift;
    for (std::int64_t i = 0; i < ids.elements(); ++i) {
      ids.as<std::int32_t>()[i] = static_cast<std::int32_t>(random_.below(vocabulary_, first + i));
    }
  }

 private:
  Philox random_;
  std::uint64_t vocabulary_;
};

}  // namespace cleave::train
