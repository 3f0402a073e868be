#pragma once

#include <functional>
#include <limits>
#include <string_view>
#include <vector>

#include "cleave/plan/time/costs.h"
#include "cleave/schedule/generators.h"
#include "cleave/schedule/program.h"

namespace cleave::plan {

/// How many microbatches may be alive, from F to W.
struct ActivationLimits {
  std::vector<double> devices = {};  ///< [device]; empty: no limit
  std::vector<double> stages = {};   ///< [stage] what one microbatch counts; empty: 1/V on a device
                                     ///< of V stages
};

/// The best order found for these stages on these devices: compute only, F, I and W of whole
/// stages. `layout` supplies placement, edges and microbatches; its lists do not matter.
///
/// No named schedule with the same placement that fits the limits has a lower makespan; nor a lower
/// cost, except where the least of each belong to two schedules and no order was found that has
/// both. The same arguments give the same program on every machine. Throws DoesNotFit if a device
/// cannot hold even one microbatch.
schedule::Program auto_schedule(const schedule::Program& layout, const Costs& costs,
                                const ActivationLimits& limits = {});

/// One program for each placement that a named schedule of this shape has; at least one. Throws
/// UserError if there can be none.
std::vector<schedule::Program> placements(const schedule::PipelineShape& shape);

/// What "auto" needs to know.
struct AutoOptions {
  std::function<Costs(const schedule::Program& layout)> costs = {};  ///< empty: F = I = W, no delay
  double limit = std::numeric_limits<double>::infinity();  ///< microbatches alive, on each device
};

/// Like schedule::generate, and knows "auto" as well. With chunks left out, auto has one stage on
/// each device; with more it also chooses between the placements that named schedules have.
schedule::Program generate(std::string_view kind, const schedule::PipelineShape& shape,
                           const AutoOptions& options = {});

/// The names that `generate` knows: all schedules and "auto".
std::vector<std::string_view> schedule_names();

}  // namespace cleave::plan
