#pragma once

#include <cstdint>
#include <vector>

#include "cleave/comm/communicator.h"
#include "cleave/engine/run/device.h"
#include "cleave/plan/time/costs.h"
#include "cleave/plan/time/simulator.h"

namespace cleave::engine {

struct ProfileOptions {
  /// How many devices compute at the same time in a step, as far as there are cores for them.
  double at_once = 1;

  /// How many the run has: measuring takes about a fifth of it, but at least 0.2 s and two rounds
  /// of three microbatches, and no more than 1 s unless these take longer. Each turn of `at_once`
  /// devices takes that long; devices that take turns on cores anyway rehearse all together.
  std::int64_t steps = 1000;
};

/// What everything in a step takes, each piece by itself.
struct Profile {
  plan::Costs costs;    ///< medians
  plan::Costs quick;    ///< lower quartiles
  plan::Costs slow;     ///< upper quartiles
  double norm_way = 0;  ///< what of NORM its numbers are on their way, in all of them
  std::vector<std::vector<plan::Hearing>> norm_rounds;  ///< see SimulateOptions
  /// [stage][segment] medians of the passes of what this device has.
  std::vector<std::vector<plan::StageCosts>> segments;
};

/// Measures what every stage, link, collective, NORM and STEP of `step` takes here and now; all
/// devices of the run call it together and get the same costs.
///
/// Before the weights are initialised or loaded: it leaves garbage in them, and zeros in the
/// optimizer's state.
Profile profile(const CompiledStep& step, Device& device, const StepInput& input,
                comm::Communicator& world, const ProfileOptions& options);

}  // namespace cleave::engine
