#include <algorithm>

#include "cleave/schedule/effects.h"
#include "cleave/schedule/passes/pass.h"

// Optimizer state lives outside and comes in for its segment's part of STEP. Segments take turns,
// so that one leaves and one comes while a third is updated; s is a device's segments in order:
//
//   last compute  IN:s0  IN:s1  WAITs, TIE, NORM
//   WAIT:IN:s0  STEP:s0  OUT:s0               IN:s2
//   WAIT:IN:s1  STEP:s1  OUT:s1  WAIT:OUT:s0  IN:s3
//   WAIT:IN:s2  STEP:s2  OUT:s2  WAIT:OUT:s1  ...
//   REFRESH and its WAITs, the last WAIT:OUT
//
// Whenever a device waits for a move, another is posted after it: what moves is never idle while
// it is the limit. Three segments are in memory at once, when the activations of the step are not.

namespace cleave::schedule {
namespace {

/// How many segments come in before the first is updated.
constexpr std::size_t kFetchedAhead = 2;

/// What STEP of one device is cut into: the segments that its list names, or whole stages.
std::vector<Instruction> updated_pieces(const Program& program, const std::vector<int>& stages,
                                        const std::vector<Instruction>& list) {
  std::vector<Instruction> pieces;
  for (const int stage : stages) {
    if (!makes_weight_gradient(gradients_of(program, stage))) continue;
    const bool named = std::ranges::any_of(list, [&](const Instruction& i) {
      return is_compute(i.op) && i.stage == stage && i.segment >= 0;
    });
    if (!named) pieces.push_back({.op = Op::Step, .stage = stage});
    for (int segment = 0; named && segment < program.segments[stage]; ++segment)
      pieces.push_back({.op = Op::Step, .stage = stage, .segment = segment});
  }
  return pieces;
}

Instruction state_move(const Instruction& piece, Op op) {
  return {.op = op, .stage = piece.stage, .segment = piece.segment};
}

Instruction wait_for_state(const Instruction& piece, Op completes) {
  return {.op = Op::Wait, .completes = completes, .stage = piece.stage, .segment = piece.segment};
}

/// STEP of all stages becomes STEP of one piece after another.
std::vector<Instruction> updates_in_turn(const std::vector<Instruction>& pieces) {
  std::vector<Instruction> out;
  for (std::size_t k = 0; k < pieces.size(); ++k) {
    out.push_back(wait_for_state(pieces[k], Op::In));
    out.push_back(pieces[k]);
    out.push_back(state_move(pieces[k], Op::Out));
    if (k > 0) out.push_back(wait_for_state(pieces[k - 1], Op::Out));
    if (k + kFetchedAhead < pieces.size())
      out.push_back(state_move(pieces[k + kFetchedAhead], Op::In));
  }
  return out;
}

std::vector<Instruction> with_state_moves(const std::vector<Instruction>& list,
                                          const std::vector<Instruction>& pieces) {
  // What others wait for goes out first: the messages and sums that follow the last compute.
  const auto posts_after = [](const Instruction& i) {
    return is_compute(i.op) || i.op == Op::Send || i.op == Op::Reduce || i.op == Op::Out;
  };
  const auto last = std::find_if(list.rbegin(), list.rend(), posts_after).base();
  std::vector<Instruction> out(list.begin(), last);
  for (std::size_t k = 0; k < std::min(kFetchedAhead, pieces.size()); ++k)
    out.push_back(state_move(pieces[k], Op::In));
  for (auto at = last; at != list.end(); ++at) {
    if (at->op != Op::Step) {
      out.push_back(*at);
      continue;
    }
    const std::vector<Instruction> updates = updates_in_turn(pieces);
    out.insert(out.end(), updates.begin(), updates.end());
  }
  out.push_back(wait_for_state(pieces.back(), Op::Out));
  return out;
}

}  // namespace

Program add_state_moves(Program program, const LowerOptions& options) {
  if (!moves_state(options.offload)) return program;
  const Topology topology(program);
  for (int device = 0; device < program.devices; ++device) {
    auto& list = program.lists[device];
    const auto pieces = updated_pieces(program, topology.stages[device], list);
    if (!pieces.empty()) list = with_state_moves(list, pieces);
  }
  return program;
}

}  // namespace cleave::schedule
