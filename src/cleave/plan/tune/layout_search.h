#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "cleave/plan/tune/analytic/predict.h"

namespace cleave::plan {

/// What a search found.
struct SearchResult {
  std::vector<Prediction> best;     ///< those that fit, fastest first; the first is the answer
  std::vector<Prediction> nearest;  ///< if nothing fits: what needs least memory, one per layout of
                                    ///< the devices
  std::int64_t layouts = 0;         ///< considered
  std::int64_t unfit = 0;           ///< of them, do not fit
  std::int64_t simulated = 0;
  std::int64_t devices_needed = 0;  ///< if nothing fits: that would do, in whole nodes; 0: none do
};

/// All layouts of `workload`: tensor groups inside a node, every pipeline depth and data degree
/// that fills the cluster, every microbatch that divides the batch, up to eight chunks, the
/// schedules 1f1b, interleaved, zb-h1, zb-h2 and zbv, ZeRO 0 to 3 (2 and 3 without a pipeline), all
/// kinds of recompute, sequence parallelism on and off.
///
/// Pruning is sound: left out are layouts whose state alone does not fit; recompute where less of
/// it fits; and layouts whose lower bound is above the fifth best simulated time.
SearchResult search_layouts(const Workload& workload);

/// The part of the time that costs `other` most against `best`.
struct Reason {
  std::string_view part;  ///< "bubble"
  double share = 0;       ///< more of it, as a share of the best step
};
Reason why_slower(const Prediction& best, const Prediction& other);

}  // namespace cleave::plan
