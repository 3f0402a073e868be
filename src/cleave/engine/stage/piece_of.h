#pragma once

#include "cleave/engine/stage/stage_parameters.h"
#include "cleave/engine/stage/tensor_state.h"
#include "cleave/tensor/arena.h"

namespace cleave::engine {

/// What `parameter`, all of it or a share, has of a piece; no elements if it has none. Shares of
/// pieces that are slices of rows are whole rows.
TensorState piece_of(const ParameterState& parameter, const Piece& piece, Memory& memory,
                     const Arena& outside);

}  // namespace cleave::engine
