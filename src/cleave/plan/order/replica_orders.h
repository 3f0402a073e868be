#pragma once

#include <vector>

#include "cleave/plan/order/auto_schedule.h"

namespace cleave::plan {

/// Orders of stages with different numbers of replicas: those of the named schedules, and with all
/// devices running further ahead. At least one; throws UserError if the shape has none.
std::vector<schedule::Program> orders_of_replicas(const schedule::PipelineShape& shape);

/// The fastest of them that keeps to the limit, or the leanest if none does.
schedule::Program best_order_of_replicas(const schedule::PipelineShape& shape,
                                         const AutoOptions& options);

}  // namespace cleave::plan
