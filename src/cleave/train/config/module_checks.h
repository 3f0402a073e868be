#pragma once

#include "cleave/train/config/config.h"

namespace cleave::train {

/// Throws UserError if the encoder of a model cannot be where [parallel], [parallel.vision] and
/// [parallel.language] put it.
void check_placement(const Config& config);

/// Whether the model is a tower that a language model reads.
bool has_tower(const Config& config);

/// Throws UserError if the tensor shards of an encoder do not fold onto its devices.
void check_vision_grid(const Config& config);

}  // namespace cleave::train
