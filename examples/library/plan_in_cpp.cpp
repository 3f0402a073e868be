// A schedule of one's own: made from C++, proven, timed, and known by name to configs from then on.

#include <algorithm>
#include <cstdio>

#include "cleave/plan/time/costs.h"
#include "cleave/plan/time/simulator.h"
#include "cleave/schedule/generators.h"
#include "cleave/schedule/verifier.h"

namespace {

using namespace cleave;  // NOLINT(google-build-using-namespace): an example

/// GPipe, but the microbatches go forward last to first.
schedule::Program last_first(const schedule::PipelineShape& shape) {
  schedule::Program program = schedule::generate("gpipe", shape);
  program.schedule = "last-first";
  for (auto& list : program.lists) std::reverse(list.begin(), list.begin() + shape.microbatches);
  return program;
}

}  // namespace

int main() {
  schedule::add_schedule({.name = "last-first", .generate = last_first, .keeps_all = true});

  const auto program = schedule::generate("last-first", {.devices = 4, .microbatches = 8});
  const auto violations = schedule::verify(program, schedule::Level::Compute);
  for (const auto& violation : violations) std::printf("wrong: %s\n", violation.reason.c_str());

  const auto costs = plan::uniform_costs(program, {.f = 1, .i = 1, .w = 1});
  const auto summary = plan::summarise(program, plan::simulate(program, costs));
  std::printf("bubble %.1f %%\n", 100 * summary.bubble);
  return violations.empty() ? 0 : 1;
}
