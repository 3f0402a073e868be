#pragma once

#include "cleave/layers/layer_kinds.h"

namespace cleave {

/// From now on LayerKinds() has it, so that every model of this process may have layers of this
/// kind. Before anything runs. Throws UserError if there is a kind of that name.
void add_layer_kind(LayerKind kind);

}  // namespace cleave
