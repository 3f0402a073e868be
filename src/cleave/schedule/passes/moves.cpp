#include <map>
#include <tuple>

#include "cleave/schedule/effects.h"
#include "cleave/schedule/passes/pass.h"

// What an F keeps moves out while the next instructions compute, and comes back while those before
// its use do; in between its memory is free. In the order of a device's compute, where u is the I
// or B of what f has kept, and b is LowerOptions::moves_beside:
//
//   f  OUT  f+1 .. f+b  WAIT:OUT  ...  u-1-b  IN  u-b .. u-1  WAIT:IN  u
//
// It stays where less than one instruction would run without it: u < f + 2 b + 2. OUT and IN follow
// the SENDs of the instruction, for which somebody waits. What is recomputed is not kept at all.

namespace cleave::schedule {
namespace {

/// Numbers count the compute instructions of a list.
struct KeptUntil {
  Instruction forward;
  int made = 0;
  int used = 0;
};

std::vector<KeptUntil> kept_long(const std::vector<Instruction>& list, const Topology& topology,
                                 int beside) {
  const int least_distance = 2 * beside + 2;
  std::vector<KeptUntil> kept;
  std::map<std::tuple<int, int, int>, std::pair<Instruction, int>> open;
  int number = 0;
  for (const Instruction& i : list) {
    if (!is_compute(i.op)) continue;
    const std::tuple key(i.stage, i.segment, i.microbatch);
    const Op op = topology.acts_as(i);
    if (op == Op::Forward) {
      open[key] = {i, number};
    } else if (op == Op::Recompute) {
      open.erase(key);
    } else if (const auto found = open.find(key);
               reads(op, Thing::OutputGradient) && found != open.end()) {
      const auto& [forward, made] = found->second;
      if (number >= made + least_distance) kept.push_back({forward, made, number});
      open.erase(found);
    }
    ++number;
  }
  return kept;
}

std::vector<Instruction> with_moves(const std::vector<Instruction>& list, const Topology& topology,
                                    int beside) {
  const std::vector<KeptUntil> kept = kept_long(list, topology, beside);
  std::multimap<int, Instruction> after;   // the SENDs of the compute instruction of this number
  std::multimap<int, Instruction> before;  // the instruction itself
  const auto move = [](const KeptUntil& what, Op op, Op completes = Op::Forward) {
    Instruction i = what.forward;
    i.op = op;
    i.completes = completes;
    return i;
  };
  for (const KeptUntil& k : kept) after.emplace(k.made + beside, move(k, Op::Wait, Op::Out));
  for (const KeptUntil& k : kept) after.emplace(k.made, move(k, Op::Out));
  for (const KeptUntil& k : kept) after.emplace(k.used - 1 - beside, move(k, Op::In));
  for (const KeptUntil& k : kept) before.emplace(k.used, move(k, Op::Wait, Op::In));

  std::vector<Instruction> out;
  out.reserve(list.size() + 4 * kept.size());
  const auto emit = [&](const std::multimap<int, Instruction>& due, int number) {
    const auto [first, last] = due.equal_range(number);
    for (auto at = first; at != last; ++at) out.push_back(at->second);
  };
  int number = -1;
  for (std::size_t at = 0; at < list.size(); ++at) {
    const bool computes = is_compute(list[at].op);
    if (computes) emit(before, ++number);
    out.push_back(list[at]);
    const bool sending = at + 1 < list.size() && list[at + 1].op == Op::Send;
    const bool ends = computes || (list[at].op == Op::Send && number >= 0);
    if (ends && !sending) {
      emit(after, number);
      after.erase(number);
    }
  }
  return out;
}

}  // namespace

Program add_moves(Program program, const LowerOptions& options) {
  if (!moves_activations(options.offload)) return program;
  const Topology topology(program);
  for (auto& list : program.lists) list = with_moves(list, topology, options.moves_beside);
  return program;
}

}  // namespace cleave::schedule
