#include <algorithm>
#include <utility>

#include "cleave/schedule/effects.h"
#include "cleave/schedule/passes/pass.h"

// From gradients to the update, on every device:
//
//   ... last W of a stage (or segment), its SENDs, REDUCE ... WAIT ... TIE 0  TIE 1 ... NORM  STEP
//
// REDUCE comes as early as it can, to overlap with what others still compute, and is waited for as
// late as possible. Where replicas keep shares of the sums, whole ones are in the way: then one
// REDUCE is waited for before the next is posted. Where a replica updates its share only, REFRESH
// follows STEP. All replicas run the same list, so they post in the same order. TIEs come after all
// compute and reductions, in the order of their numbers on every device, so no two devices wait for
// each other in different ones.

namespace cleave::schedule {
namespace {

/// Marks the instructions of one list after which a gradient is complete.
std::vector<char> last_weights(const std::vector<Instruction>& list,
                               const std::vector<int>& segments) {
  std::vector<char> last(list.size(), 0);
  std::vector<std::vector<char>> seen(segments.size());
  for (std::size_t at = list.size(); at-- > 0;) {
    const Instruction& i = list[at];
    if (!is_compute(i.op) || !writes(i.op, Thing::Gradients)) continue;
    auto& stage = seen[i.stage];
    if (stage.empty()) stage.resize(segments[i.stage], 0);
    if (!std::exchange(stage[std::max(i.segment, 0)], 1)) last[at] = 1;
  }
  return last;
}

Instruction wait_for(const Instruction& post) {
  return {.op = Op::Wait, .completes = post.op, .stage = post.stage, .segment = post.segment};
}

/// Whether a REDUCE is waited for before the next one is posted, or all of them at the end.
enum class Turns { OneByOne, Together };

std::vector<Instruction> add_reductions(const std::vector<Instruction>& list,
                                        const std::vector<int>& segments, Turns turns) {
  const std::vector<char> last = last_weights(list, segments);
  std::vector<Instruction> out;
  std::vector<Instruction> due;
  std::vector<Instruction> posted;
  out.reserve(list.size() + segments.size());
  for (std::size_t at = 0; at < list.size(); ++at) {
    out.push_back(list[at]);
    if (last[at])
      due.push_back({.op = Op::Reduce, .stage = list[at].stage, .segment = list[at].segment});
    if (at + 1 < list.size() && list[at + 1].op == Op::Send) continue;
    for (const Instruction& reduce : due) {
      if (turns == Turns::OneByOne && !posted.empty()) {
        out.push_back(wait_for(posted.back()));
        posted.clear();
      }
      out.push_back(reduce);
      posted.push_back(reduce);
    }
    due.clear();
  }
  for (const Instruction& reduce : posted) out.push_back(wait_for(reduce));
  return out;
}

void add_refreshes(const Program& program, const std::vector<int>& stages,
                   std::vector<Instruction>& list) {
  std::vector<Instruction> posted;
  for (const int stage : stages) {
    const Sharing sharing = sharing_of(program, stage);
    const bool learns = makes_weight_gradient(gradients_of(program, stage));
    if (learns && (sharing == Sharing::State || sharing == Sharing::Gradients))
      posted.push_back({.op = Op::Refresh, .stage = stage});
  }
  list.insert(list.end(), posted.begin(), posted.end());
  for (const Instruction& refresh : posted) list.push_back(wait_for(refresh));
}

}  // namespace

Program add_gradients(Program program, const LowerOptions& options) {
  const Topology topology(program);
  const Turns turns = options.sharing >= Sharing::Gradients ? Turns::OneByOne : Turns::Together;
  for (int device = 0; device < program.devices; ++device) {
    auto& list = program.lists[device];
    if (topology.holders(device) > 1) list = add_reductions(list, program.segments, turns);
    const auto holds = [&](int stage) {
      return std::ranges::binary_search(topology.stages[device], stage);
    };
    for (int tie = 0; tie < static_cast<int>(program.ties.size()); ++tie)
      if (holds(program.ties[tie].first) || holds(program.ties[tie].second))
        list.push_back({.op = Op::Tie, .edge = tie});
    list.push_back({.op = Op::Norm});
    const bool learns = std::ranges::any_of(topology.stages[device], [&](int stage) {
      return makes_weight_gradient(gradients_of(program, stage));
    });
    if (!learns) continue;
    list.push_back({.op = Op::Step});
    add_refreshes(program, topology.stages[device], list);
  }
  return program;
}

}  // namespace cleave::schedule
