#pragma once

#include <cstdint>
#include <vector>

#include "cleave/shard/tensor_share.h"
#include "cleave/spec/layer_spec.h"

namespace cleave {

/// Where a layer that wants all rows finds its own tensors among what the wrapping layer keeps.
struct GatheredAttributes {
  int devices = 1;
  bool divides_x = false;  ///< x holds the device's own rows; else it comes from the data
  bool divides_y = false;  ///< y holds the device's own rows; else it is a result
  int x = -1;              ///< kept_by_forward: all rows of x; -1: F alone needs them
  int y = -1;              ///< kept_by_forward: all rows of y; -1: F alone needs them
  int dy = -1;             ///< kept_by_input: all rows of dy; -1: I alone needs them
  std::vector<LayerSpec> whole = {};  ///< one: the layer for all rows

  friend bool operator==(const GatheredAttributes&, const GatheredAttributes&) = default;
};

namespace shard {

/// Which ends of a layer hold only the device's own rows.
struct DividedEnds {
  bool x = true;
  bool y = true;
};

/// kind "gathered": a layer that is computed whole on every device of a group whose activations are
/// divided by rows. F gathers x, I gathers dy; what the passes read later is kept with all rows.
LayerSpec gathered(const TensorShare& share, const DividedEnds& ends, LayerSpec whole);

}  // namespace shard
}  // namespace cleave
