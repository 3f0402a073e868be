#pragma once

#include <cstdint>

#include "cleave/plan/tune/analytic/predict.h"
#include "cleave/plan/tune/layout_search.h"

namespace cleave::plan {

/// All layouts of `workload`: tensor groups inside a node, every pipeline depth and data degree
/// that fills the cluster, every microbatch that divides the batch, up to eight chunks, the
/// schedules that are marked for clusters, ZeRO 0 to 3 (2 and 3 without a pipeline), all kinds of
/// recompute, sequence parallelism on and off.
LayoutSpace space_of(const Workload& workload);

/// The five fastest of those `allowed` that fit; if none does, the five that need least memory, one
/// per division of the devices.
SearchResult search_layouts(const Workload& workload, const Allowed& allowed = {});

/// How many devices of the same kind would hold `workload` in an allowed layout, in whole nodes; 0:
/// no number does.
std::int64_t devices_needed(const Workload& workload, const Allowed& allowed = {});

}  // namespace cleave::plan
