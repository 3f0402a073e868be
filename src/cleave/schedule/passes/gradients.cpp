#include <algorithm>
#include <utility>

#include "cleave/schedule/passes/pass.h"

// From gradients to the update, on every device:
//
//   ... last W of a stage (or segment), its SENDs, REDUCE ... TIE 0  TIE 1 ... NORM  STEP
//
// REDUCE comes as early as it can, to overlap with what others still compute. All replicas run the
// same list, so they meet in the same order. TIEs come after all compute and reductions, in the
// order of their numbers on every device, so no two devices wait for each other in different ones.

namespace cleave::schedule {
namespace {

/// Marks the instructions of one list after which a gradient is complete.
std::vector<char> last_weights(const std::vector<Instruction>& list,
                               const std::vector<int>& segments) {
  std::vector<char> last(list.size(), 0);
  std::vector<std::vector<char>> seen(segments.size());
  for (std::size_t at = list.size(); at-- > 0;) {
    const Instruction& i = list[at];
    if (i.op != Op::BackwardWeight && i.op != Op::Backward) continue;
    auto& stage = seen[i.stage];
    if (stage.empty()) stage.resize(segments[i.stage], 0);
    if (!std::exchange(stage[std::max(i.segment, 0)], 1)) last[at] = 1;
  }
  return last;
}

std::vector<Instruction> add_reductions(const std::vector<Instruction>& list,
                                        const std::vector<int>& segments) {
  const std::vector<char> last = last_weights(list, segments);
  std::vector<Instruction> out;
  std::vector<Instruction> due;
  out.reserve(list.size() + segments.size());
  for (std::size_t at = 0; at < list.size(); ++at) {
    out.push_back(list[at]);
    if (last[at])
      due.push_back({.op = Op::Reduce, .stage = list[at].stage, .segment = list[at].segment});
    if (at + 1 < list.size() && list[at + 1].op == Op::Send) continue;
    out.insert(out.end(), due.begin(), due.end());
    due.clear();
  }
  return out;
}

}  // namespace

Program add_gradients(Program program, const LowerOptions& /*options*/) {
  const Topology topology(program);
  for (int device = 0; device < program.devices; ++device) {
    auto& list = program.lists[device];
    if (program.replicas > 1) list = add_reductions(list, program.segments);
    const auto holds = [&](int stage) {
      return std::ranges::binary_search(topology.stages[device], stage);
    };
    for (int tie = 0; tie < static_cast<int>(program.ties.size()); ++tie)
      if (holds(program.ties[tie].first) || holds(program.ties[tie].second))
        list.push_back({.op = Op::Tie, .edge = tie});
    list.push_back({.op = Op::Norm});
    if (!topology.stages[device].empty()) list.push_back({.op = Op::Step});
  }
  return program;
}

}  // namespace cleave::schedule
