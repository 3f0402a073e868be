#include <algorithm>
#include <string>

#include "cleave/base/check.h"
#include "cleave/schedule/passes/pass.h"

namespace cleave::schedule {

// Copy c of device d is device c * devices + d; it runs the same list on other microbatches. A
// program whose stages have different numbers of replicas is copied as a whole.
Program replicate(Program program, const LowerOptions& options) {
  require(options.replicas >= 1, "a program needs at least one replica, got ", options.replicas);
  if (options.replicas == 1) return program;
  const auto of_one = [](const Absence& a) { return a.replica != Absence::kEveryReplica; };
  require(std::ranges::none_of(program.absent, of_one), "the program is to be copied for ",
          options.replicas,
          " replicas, and says already what one of them is absent from; leave that out later");

  const int devices = program.devices;
  program.replicas *= options.replicas;
  program.devices = devices * options.replicas;
  program.lists.reserve(program.devices);
  for (int device = devices; device < program.devices; ++device) {
    program.lists.push_back(program.lists[device - devices]);
    for (auto* budgets : {&program.budgets, &program.outside_budgets})
      if (!budgets->empty()) budgets->push_back((*budgets)[device - devices]);
  }
  for (auto& place : program.placement)
    for (std::size_t replica = 0; std::ssize(place) < program.replicas; ++replica)
      place.push_back(place[replica] + devices);
  return program;
}

}  // namespace cleave::schedule
