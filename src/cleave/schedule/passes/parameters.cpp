#include <algorithm>
#include <utility>

#include "cleave/schedule/passes/pass.h"

// A use is a run of F, I, B, R on the same segment; W needs no parameters. While one use computes,
// the next one's parameters are gathered, so at most two segments are whole:
//
//   GATHER 0  GATHER 1  use 0  FREE 0  GATHER 2  use 1  FREE 1  GATHER 3  use 2 ...
//
// A segment that the use after next needs again stays. All replicas have the same lists, hence
// enter their collectives in the same order.

namespace cleave::schedule {
namespace {

struct Use {
  int stage;
  int segment;
  std::size_t first;
  std::size_t last;

  bool same_segment(const Use& other) const {
    return stage == other.stage && segment == other.segment;
  }
};

std::vector<Use> uses_of(const std::vector<Instruction>& list) {
  std::vector<Use> uses;
  for (std::size_t at = 0; at < list.size(); ++at) {
    const Instruction& i = list[at];
    if (!is_compute(i.op) || i.op == Op::BackwardWeight) continue;
    const Use use{i.stage, i.segment, at, at};
    if (!uses.empty() && uses.back().same_segment(use))
      uses.back().last = at;
    else
      uses.push_back(use);
  }
  return uses;
}

std::vector<Instruction> shard(const std::vector<Instruction>& list) {
  const std::vector<Use> uses = uses_of(list);
  std::vector<Instruction> out;
  out.reserve(list.size() + 2 * uses.size());
  const auto emit = [&](Op op, std::size_t use) {
    if (use < uses.size())
      out.push_back({.op = op, .stage = uses[use].stage, .segment = uses[use].segment});
  };

  std::size_t use = 0;
  for (std::size_t at = 0; at < list.size(); ++at) {
    if (use == 0 && use < uses.size() && at == uses[0].first) {
      emit(Op::Gather, 0);
      emit(Op::Gather, 1);
    }
    out.push_back(list[at]);
    // Not before the SENDs that follow: collectives block, and somebody waits for the message.
    const bool sending = at + 1 < list.size() && list[at + 1].op == Op::Send;
    if (use == uses.size() || at < uses[use].last || sending) continue;
    const bool stays = use + 2 < uses.size() && uses[use].same_segment(uses[use + 2]);
    if (!stays) {
      emit(Op::Free, use);
      emit(Op::Gather, use + 2);
    }
    ++use;
  }
  return out;
}

}  // namespace

Program shard_parameters(Program program, const LowerOptions& options) {
  if (options.parameters == Parameters::Whole || program.replicas == 1) return program;
  for (auto& list : program.lists) list = shard(list);
  return program;
}

}  // namespace cleave::schedule
