#pragma once

#include <vector>

#include "cleave/engine/run/emulated_device.h"
#include "cleave/plan/time/costs.h"
#include "cleave/schedule/program.h"
#include "cleave/spec/graph.h"
#include "cleave/train/config/config.h"

namespace cleave::train {

/// [segment] of a model: what it takes on an emulated device of speed 1, per microbatch. A block
/// takes f, and of i and w what its gradients are asked for; all else takes nothing. All that is
/// told of cuts of a model is told by these.
std::vector<plan::StageCosts> emulated_segments(const Config& config, const Graph& model);

/// How long the emulated devices of `config` sleep.
engine::EmulatedTimes emulated_times(const Config& config);

/// What the instructions of `program` take on the emulated devices of `config`; messages take what
/// it says of links.
plan::Costs emulated_costs(const Config& config, const schedule::Program& program);

}  // namespace cleave::train
