#include <algorithm>
#include <utility>

#include "cleave/schedule/effects.h"
#include "cleave/schedule/passes/pass.h"

// A use is a run of F, I, B, R on the same segment; a W after an I needs no parameters. While one
// use computes, the next one's parameters are gathered, so at most two segments are whole:
//
//   GATHER 0  GATHER 1  WAIT 0  use 0  FREE 0  GATHER 2  WAIT 1  use 1  FREE 1  GATHER 3  WAIT 2
//   ...
//
// The WAIT stands right before the first instruction of the use. A segment that the use after next
// needs again stays. All replicas have the same lists, hence enter their collectives in the same
// order.

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

std::vector<Use> uses_of(const std::vector<Instruction>& list, const Topology& topology) {
  std::vector<Use> uses;
  for (std::size_t at = 0; at < list.size(); ++at) {
    const Instruction& i = list[at];
    if (!is_compute(i.op) || !reads(topology.acts_as(i), Thing::Values)) continue;
    const Use use{i.stage, i.segment, at, at};
    if (!uses.empty() && uses.back().same_segment(use))
      uses.back().last = at;
    else
      uses.push_back(use);
  }
  return uses;
}

std::vector<Instruction> shard(const std::vector<Instruction>& list, const Topology& topology) {
  const std::vector<Use> uses = uses_of(list, topology);
  std::vector<Instruction> out;
  out.reserve(list.size() + 2 * uses.size());
  const auto emit = [&](Op op, std::size_t use) {
    if (use < uses.size())
      out.push_back({.op = op, .stage = uses[use].stage, .segment = uses[use].segment});
  };
  const auto wait = [&](std::size_t use) {
    emit(Op::Wait, use);
    out.back().completes = Op::Gather;
  };

  std::size_t use = 0;
  bool stayed[2] = {};  // the present use and the next find their parameters there
  for (std::size_t at = 0; at < list.size(); ++at) {
    if (use == 0 && use < uses.size() && at == uses[0].first) {
      emit(Op::Gather, 0);
      emit(Op::Gather, 1);
    }
    if (use < uses.size() && at == uses[use].first && !stayed[0]) wait(use);
    out.push_back(list[at]);
    // The SENDs that follow go first: somebody waits for the message.
    const bool sending = at + 1 < list.size() && list[at + 1].op == Op::Send;
    if (use == uses.size() || at < uses[use].last || sending) continue;
    const bool stays = use + 2 < uses.size() && uses[use].same_segment(uses[use + 2]);
    if (!stays) {
      emit(Op::Free, use);
      emit(Op::Gather, use + 2);
    }
    ++use;
    stayed[0] = std::exchange(stayed[1], stays);
  }
  return out;
}

}  // namespace

Program shard_parameters(Program program, const LowerOptions& options) {
  if (program.replicas == 1 || options.sharing == Sharing::Nothing) return program;
  // What one device holds alone it shares with nobody.
  for (int stage = 0; stage < program.stages; ++stage)
    program.sharing.push_back(holders_of(program, stage).size() > 1 ? options.sharing
                                                                    : Sharing::Nothing);
  if (options.sharing != Sharing::Values) return program;
  const Topology topology(program);
  for (int device = 0; device < program.devices; ++device)
    if (topology.holders(device) > 1)
      program.lists[device] = shard(program.lists[device], topology);
  return program;
}

}  // namespace cleave::schedule
