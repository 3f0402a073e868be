#pragma once

#include <string>
#include <string_view>

#include "cleave/schedule/program.h"

namespace cleave::schedule {

/// The compute of `program` as torch.distributed.pipelining writes it: one row per device, cells
/// like 2F0 (stage, F I W or B, microbatch). Throws UserError if the program has replicas or splits
/// stages into segments, for which that form has no words. Everything but F, I, W and B is left
/// out.
std::string to_torch_csv(const Program& program);

/// Reads such a file: empty cells (idle time) and blanks are skipped, and a pair like
/// (0F1;3B0)OVERLAP_F_B becomes two instructions. Of the lowered form (compute_comms) the compute
/// is taken and the rest left out: SEND_F, RECV_F, SEND_B, RECV_B, UNSHARD, RESHARD and
/// REDUCE_GRAD. Stages, microbatches and placement are what the cells name; edges form a chain.
/// Throws UserError with line and column. Memory is bounded by the size of `text`.
Program parse_torch_csv(std::string_view text);

}  // namespace cleave::schedule
