#pragma once

#include <vector>

#include "cleave/schedule/program.h"

namespace cleave::schedule {

/// Replicas that cut one model at different places: the stages become the common refinement of all
/// their cuts, and each replica's devices hold as many of them as lie between its own.
///
///   order        replica 0 cuts after 1        replica 1 cuts after 2
///   0F 1F        device 0: 0F                  device 2: 0F 1F
///                device 1: 1F 2F               device 3: 2F
///
/// `order` is compute-only and of one replica. `parts` [replica][stage]: the stage of `order` that
/// a stage is a part of, ascending and without gaps. Stage 1 above is held by devices 1 and 2,
/// which reduce its gradients as replicas do.
Program refine(const Program& order, const std::vector<std::vector<int>>& parts);

}  // namespace cleave::schedule
