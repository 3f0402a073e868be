#pragma once

#include "cleave/layers/layer.h"
#include "cleave/parallel/tensor_group.h"

namespace cleave::parallel {

/// Makes the layers of this module, and by `make` all others. `group` as the layers want it.
LayerFactory sharded_layers(LayerFactory make, TensorGroup* group);

}  // namespace cleave::parallel
