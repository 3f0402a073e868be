#include "cleave/plan/simulation/collectives.h"

namespace cleave::plan::simulation {

using schedule::Instruction;
using schedule::Op;
using schedule::Program;

Collectives::Collectives(const Setting& setting, Timeline& timeline)
    : setting_(setting), timeline_(timeline), devices_(setting.program.devices) {}

int Collectives::members(const Instruction& instruction) const {
  const Program& program = setting_.program;
  if (instruction.op == Op::Norm) return program.devices;
  if (instruction.op != Op::Tie) return program.replicas;
  const schedule::Tie& tie = program.ties[instruction.edge];
  return program.placement[tie.first][0] == program.placement[tie.second][0] ? 1 : 2;
}

void Collectives::enter(int device, const Instruction& instruction, double time) {
  const bool tie = instruction.op == Op::Tie;
  const Key which = {instruction.op, tie ? instruction.edge : instruction.stage,
                     instruction.segment};
  // Replicas tie among themselves; the other collectives run across them.
  const int group = tie ? setting_.topology.replica[device] : 0;
  const int turn = devices_[device].entered[which]++;
  std::vector<int>& there = entered_[{which, group, turn}];
  there.push_back(device);
  devices_[device].since = time;
  devices_[device].waits = true;
  if (static_cast<int>(there.size()) < members(instruction)) return;

  for (const int member : there) {
    const double end = time + duration(setting_.program, setting_.costs, member, instruction);
    const double since = devices_[member].since;
    if (since < time) timeline_.add(member, SpanKind::Wait, since, time, instruction);
    timeline_.add(member, SpanKind::Collective, time, end, instruction);
    devices_[member].waits = false;
    timeline_.wake(member, end);
  }
}

}  // namespace cleave::plan::simulation
