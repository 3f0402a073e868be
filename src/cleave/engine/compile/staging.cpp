#include "cleave/engine/compile/staging.h"

namespace cleave::engine {

void plan_staging(CompiledStep& step) {
  // A copy would take the memory that state has left.
  if (step.state_moves) return;
  std::vector<std::int64_t> staging(step.program.devices);
  for (int s = 0; s < step.program.stages; ++s) {
    // The first replica saves the stage; with ZeRO each replica saves its share.
    const std::vector<int> places = holders_of(step.program, s);
    for (std::size_t r = 0; r < (step.zero > 0 ? places.size() : 1); ++r)
      staging[places[r]] += step.memory[s].saved;
  }
  for (int d = 0; d < std::ssize(step.budgets); ++d) {
    if (step.planned_on(d) + staging[step.place_of(d)] > step.budgets[d]) return;
  }
  for (int p = 0; p < step.program.devices; ++p) step.planned_bytes[p] += staging[p];
  step.staging_bytes = std::move(staging);
}

}  // namespace cleave::engine
