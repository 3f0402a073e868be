#pragma once

#include "cleave/comm/communicator.h"
#include "cleave/plan/costs.h"
#include "cleave/runtime/device.h"

namespace cleave::runtime {

/// Measures what every stage, link, NORM and STEP of `step` takes here and now; all devices of the
/// run call it together and get the same costs. `at_once` devices compute at the same time, as they
/// will in a step, for at least 0.2 s or six microbatches each; then come the next ones.
///
/// Before the weights are initialised or loaded: it leaves garbage in them, and zeros in the
/// optimizer's state. `world` is null for one device alone.
plan::Costs profile(const CompiledStep& step, Device& device, const StepInput& input,
                    comm::Communicator* world, double at_once);

}  // namespace cleave::runtime
