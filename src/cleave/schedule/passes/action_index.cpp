#include <algorithm>

#include "cleave/base/check.h"
#include "cleave/schedule/passes/pass.h"

namespace cleave::schedule {
namespace {

std::size_t slots(const Program& program) {
  return static_cast<std::size_t>(program.replicas) * program.stages * program.microbatches;
}

}  // namespace

ActionIndex::ActionIndex(const Program& program)
    : stages_(program.stages),
      microbatches_(program.microbatches),
      forward_(slots(program), -1),
      backward_(slots(program), -1) {
  const Topology topology(program);
  for (int device = 0; device < program.devices; ++device) {
    const auto& list = program.lists[device];
    for (int at = 0; at < static_cast<int>(list.size()); ++at) {
      const auto& [op, completes, direction, stage, segment, microbatch, edge] = list[at];
      if (!is_compute(op)) continue;
      require(stage >= 0 && stage < program.stages && microbatch >= 0 &&
                  microbatch < program.microbatches,
              "device ", device, ": ", to_string(list[at]), " is outside of ", program.stages,
              " stages and ", program.microbatches, " microbatches");
      const int replica = topology.replica[device];
      require(std::ranges::binary_search(topology.stages[device], stage), "device ", device, ": ",
              to_string(list[at]), " belongs to another device; see the placement of stage ",
              stage);
      if (op == Op::BackwardWeight || op == Op::Recompute) continue;
      int& position = (op == Op::Forward ? forward_ : backward_)[slot(replica, stage, microbatch)];
      require(position < 0, "device ", device, " runs ", to_string(list[at]), " twice");
      position = at;
    }
  }
  // A program that only evaluates has no backward at all.
  const bool trains = std::ranges::any_of(backward_, [](int at) { return at >= 0; });
  for (const auto& [found, letter] : {std::pair(&forward_, 'F'), std::pair(&backward_, 'I')}) {
    if (letter == 'I' && !trains) break;
    const auto missing = std::ranges::find(*found, -1);
    if (missing == found->end()) continue;
    const std::size_t at = static_cast<std::size_t>(missing - found->begin());
    throw UserError(detail::concat("no device runs ", at / microbatches_ % stages_, letter,
                                   at % microbatches_, letter == 'I' ? " (or B)" : ""));
  }
}

}  // namespace cleave::schedule
