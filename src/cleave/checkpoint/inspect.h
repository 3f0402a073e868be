#pragma once

#include <string>

#include "cleave/checkpoint/reader.h"

namespace cleave::checkpoint {

/// What a checkpoint holds, to read: step, sizes, a line per tensor, the config.
std::string inspect_text(const CheckpointReader& checkpoint);

/// The same as one JSON object: path, step, data_position, seed, version, config, parameters,
/// bytes, tensors (name and shape).
std::string inspect_json(const CheckpointReader& checkpoint);

}  // namespace cleave::checkpoint
