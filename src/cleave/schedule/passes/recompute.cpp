#include <algorithm>

#include "cleave/base/check.h"
#include "cleave/schedule/effects.h"
#include "cleave/schedule/passes/pass.h"

namespace cleave::schedule {

// R goes right before the I or B it serves. The communication pass comes later and puts the WAIT
// for the gradient between the two: R needs none, so a device recomputes while it would wait.
Program add_recompute(Program program, const LowerOptions& options) {
  if (options.recompute.empty()) return program;
  require(static_cast<int>(options.recompute.size()) == program.stages, "recompute is given for ",
          options.recompute.size(), " stages, but the program has ", program.stages);
  const Topology topology(program);
  for (auto& list : program.lists) {
    require(std::ranges::none_of(list, [](const Instruction& i) { return i.op == Op::Recompute; }),
            "the program has R already; leave out recompute, or the R");
    std::vector<Instruction> out;
    out.reserve(list.size() + list.size() / 2);
    for (const Instruction& i : list) {
      const bool needs = reads(topology.acts_as(i), Thing::OutputGradient) &&
                         options.recompute.at(i.stage) != Recompute::None;
      if (needs) out.push_back({.op = Op::Recompute, .stage = i.stage, .microbatch = i.microbatch});
      out.push_back(i);
    }
    list = std::move(out);
  }
  return program;
}

}  // namespace cleave::schedule
