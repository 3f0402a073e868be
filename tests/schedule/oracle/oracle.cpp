#include "schedule/oracle/oracle.h"

#include <random>
#include <set>

#include "schedule/oracle/machine.h"

namespace cleave::schedule::oracle {
namespace {

// Depth first over all machines that can be reached; each place is visited once.
void explore(const Machine& machine, int devices, std::set<std::vector<std::int16_t>>& seen) {
  bool moved = false;
  for (int d = 0; d < devices; ++d) {
    Machine next = machine;
    if (next.step(d) != Machine::Outcome::Ran) continue;
    moved = true;
    if (seen.insert(next.place()).second) explore(next, devices, seen);
  }
  if (moved) return;
  demand(machine.all_done(), "deadlock");
  machine.finish();
}

}  // namespace

std::string run(const Program& program, Messages messages, unsigned seed) {
  try {
    const Layout layout(program);
    Machine machine(layout, messages);
    std::mt19937 random(seed);
    for (bool moved = true; moved;) {
      moved = false;
      for (int turn = 0; turn < program.devices; ++turn) {
        const int d = static_cast<int>(random() % program.devices);
        for (int burst = static_cast<int>(random() % 8); burst >= 0; --burst)
          if (machine.step(d) == Machine::Outcome::Ran) moved = true;
      }
      for (int d = 0; d < program.devices; ++d)
        while (!moved && machine.step(d) == Machine::Outcome::Ran) moved = true;
    }
    demand(machine.all_done(), "deadlock");
    machine.finish();
  } catch (const Fault& fault) {
    return fault.what();
  }
  return {};
}

std::string run_all(const Program& program, Messages messages) {
  try {
    const Layout layout(program);
    std::set<std::vector<std::int16_t>> seen;
    explore(Machine(layout, messages), program.devices, seen);
  } catch (const Fault& fault) {
    return fault.what();
  }
  return {};
}

}  // namespace cleave::schedule::oracle
