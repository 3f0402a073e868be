#pragma once

#include <cstdint>
#include <vector>

#include "cleave/plan/time/costs.h"
#include "cleave/plan/tune/analytic/part_cost.h"

namespace cleave::plan {

/// What the parts of a stage or of a device come to: seconds and bytes per microbatch.
struct Holding {
  StageCosts time;
  double recompute = 0;             ///< of `time`, what blocks compute again
  double tensor_communication = 0;  ///< of `time`, what blocks spend in collectives
  double data_communication = 0;    ///< of `time`, what ZeRO 2 and 3 cannot hide behind arithmetic
  double parameters = 0;
  double trained = 0;  ///< those of them that learn
  double kept = 0;     ///< bytes of each microbatch alive
  double once = 0;     ///< bytes that the head keeps of one microbatch
  double work = 0;     ///< bytes of the part that needs most within one pass
  double block = 0;    ///< parameters of the largest block

  void add(const Holding& other, double count = 1);
};

/// Blocks of each stage. Where stages do not divide the layers, the first and the last, which also
/// hold the embedding and the head, have fewer.
std::vector<std::int64_t> blocks_of_stages(std::int64_t layers, std::int64_t stages);

/// [part] what each part of `parts` comes to.
std::vector<Holding> part_holdings(const Workload& workload, const Layout& layout,
                                   const std::vector<PartCost>& parts);

/// [stage], in the order of the model, by the layout's partition or as evenly as can be. The first
/// and the last have a part besides their blocks.
std::vector<Holding> stage_holdings(const Workload& workload, const Layout& layout,
                                    const std::vector<PartCost>& parts);

/// [device of the pipeline]. A matrix that both ends of the model use is there once.
std::vector<Holding> device_holdings(const Workload& workload, const Layout& layout,
                                     const std::vector<PartCost>& parts);

/// [stage] what it takes per microbatch: communication with its neighbours included, what is
/// recomputed as part of I.
std::vector<StageCosts> stage_times(const Workload& workload, const Layout& layout,
                                    const std::vector<PartCost>& parts);

}  // namespace cleave::plan
