#pragma once

#include "cleave/data/dataset.h"
#include "cleave/engine/compile/compile.h"
#include "cleave/train/config/config.h"

namespace cleave::train {

/// Whether the server of rounds looks at a set of its own; what clients hold out is with them.
bool server_evaluates(const data::Data& data);

/// What the server of rounds holds, whose clients train elsewhere: the weights, the slots of the
/// outer rule, and what evaluating takes, if it does.
engine::CompiledStep compile_server(const Config& config, bool evaluates);

}  // namespace cleave::train
