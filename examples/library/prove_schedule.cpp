// The planner alone, which needs neither MPI nor oneDNN: a schedule is made, proven and timed.

#include <cstdio>

#include "cleave/plan/time/costs.h"
#include "cleave/plan/time/simulator.h"
#include "cleave/schedule/generators.h"
#include "cleave/schedule/verifier.h"

int main() {
  const auto program = cleave::schedule::generate("zb-h1", {.devices = 4, .microbatches = 8});
  const auto violations = cleave::schedule::verify(program, cleave::schedule::Level::Compute);
  for (const auto& violation : violations) std::printf("wrong: %s\n", violation.reason.c_str());

  const auto costs = cleave::plan::uniform_costs(program, {.f = 1, .i = 1, .w = 1});
  const auto summary = cleave::plan::summarise(program, cleave::plan::simulate(program, costs));
  std::printf("bubble %.1f %%\n", 100 * summary.bubble_rate);
  return violations.empty() ? 0 : 1;
}
