#pragma once

#include <array>
#include <limits>
#include <optional>
#include <random>
#include <string_view>
#include <vector>

#include "cleave/base/check.h"
#include "cleave/plan/order/auto_schedule.h"
#include "cleave/plan/time/simulator.h"
#include "cleave/plan/time/trace.h"
#include "cleave/schedule/generators.h"

namespace cleave::plan::testing {

/// A placement, costs per stage and a limit.
struct RandomPipeline {
  schedule::Program layout;
  Costs costs;
  double spread = 1;  ///< slowest stage over fastest, at most
  double limit = 0;   ///< microbatches alive per device

  ActivationLimits limits() const {
    return {.devices = std::vector<double>(layout.devices, limit), .stages = {}};
  }
};

struct Sizes {
  int most_devices = 5;
  int most_microbatches = 8;
  int least_devices = 2;
  int least_microbatches = 2;
  bool tight = false;  ///< limits of at most half as many microbatches as devices, and one
};

/// One stage per device, or two as in the V or in the loop schedules; spread up to 4; limits from
/// one microbatch up to none.
inline RandomPipeline random_pipeline(unsigned seed, const Sizes& sizes) {
  constexpr std::array<std::string_view, 3> kPlacements = {"1f1b", "zbv", "interleaved"};
  std::mt19937 bits(seed);
  const auto between = [&](double low, double high) {
    return low + (high - low) * static_cast<double>(bits() >> 8) / (1 << 24);
  };
  const auto pick = [&](int low, int high) {
    return low + static_cast<int>(bits() % static_cast<unsigned>(high - low + 1));
  };
  RandomPipeline random;
  const int devices = pick(sizes.least_devices, sizes.most_devices);
  const int microbatches = pick(sizes.least_microbatches, sizes.most_microbatches);
  random.layout = schedule::generate(kPlacements[pick(0, 2)],
                                     {.devices = devices, .microbatches = microbatches});
  random.costs = uniform_costs(random.layout, {.comm = pick(0, 1) * between(0, 0.2)});
  random.spread = between(1, 4);
  for (StageCosts& stage : random.costs.stages) {
    const double slowness = between(1, random.spread);
    stage.forward *= slowness;
    stage.input *= slowness * between(0.8, 1.2);
    stage.weight *= slowness * between(0.6, 1.1);
  }
  random.limit = 1 + 0.5 * pick(0, sizes.tight ? devices : 4 * devices);
  if (pick(0, 3) == 0 && !sizes.tight) random.limit = std::numeric_limits<double>::infinity();
  return random;
}

inline Summary outcome(const RandomPipeline& pipeline, const schedule::Program& program) {
  return summarise(program, simulate(program, pipeline.costs, {.record = Record::DevicesOnly}));
}

inline bool fits(const RandomPipeline& pipeline, const schedule::Program& program) {
  for (const double peak : peak_activations(program))
    if (peak > pipeline.limit + 1e-9) return false;
  return true;
}

/// The least makespan and the least cost of the named schedules with this placement that fit; they
/// may be of different schedules. Nothing if none fits.
inline std::optional<Summary> best_named(const RandomPipeline& pipeline) {
  std::optional<Summary> best;
  const schedule::Program& layout = pipeline.layout;
  for (const std::string_view name : schedule::schedule_names()) {
    schedule::Program program;
    try {
      program = schedule::generate(name, {.devices = layout.devices,
                                          .microbatches = layout.microbatches,
                                          .chunks = layout.stages / layout.devices});
    } catch (const UserError&) {
      continue;
    }
    if (program.placement != layout.placement || !fits(pipeline, program)) continue;
    const Summary summary = outcome(pipeline, program);
    if (!best) best = summary;
    best->makespan = std::min(best->makespan, summary.makespan);
    best->cost = std::min(best->cost, summary.cost);
  }
  return best;
}

}  // namespace cleave::plan::testing
