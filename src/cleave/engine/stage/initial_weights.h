#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "cleave/base/philox.h"
#include "cleave/spec/layer_spec.h"

namespace cleave::engine {

/// The weights that a tensor begins with: a function of the seed and its name, whoever has how much
/// of it.
class InitialWeights {
 public:
  InitialWeights(std::uint64_t seed, std::string_view name, const Init& init)
      : random_(seed, "init", name), init_(init) {}

  /// Elements `first` and on, as many as `out` has room for.
  void draw(std::int64_t first, std::span<float> out) const;

 private:
  Philox random_;
  Init init_;
};

}  // namespace cleave::engine
