#include "cleave/engine/stage/initial_weights.h"

#include <algorithm>

namespace cleave::engine {

void InitialWeights::draw(std::int64_t first, std::span<float> out) const {
  if (init_.deviation == 0) {
    std::ranges::fill(out, init_.mean);
    return;
  }
  random_.fill_normal(static_cast<std::uint64_t>(first), out);
  for (float& value : out) value = value * init_.deviation + init_.mean;
}

}  // namespace cleave::engine
