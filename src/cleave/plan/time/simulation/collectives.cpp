#include "cleave/plan/time/simulation/collectives.h"

#include <algorithm>
#include <utility>

namespace cleave::plan::simulation {

using schedule::Instruction;
using schedule::Op;
using schedule::Program;

Collectives::Collectives(const Setting& setting, Timeline& timeline)
    : setting_(setting),
      timeline_(timeline),
      devices_(setting.program.devices),
      exchanges_(setting.program.devices) {
  const auto gathers = [](const std::vector<Instruction>& list) {
    return std::ranges::find(list, Op::Gather, &Instruction::op) != list.end();
  };
  for (int d = 0; d < setting.program.devices; ++d) {
    if (gathers(setting.program.lists[d])) continue;
    for (const int stage : setting.topology.stages[d])
      exchanges_[d] += setting.costs.stages[stage].gather;
  }
}

double Collectives::length(int device, const Instruction& instruction) const {
  return instruction.op == Op::Step
             ? exchanges_[device]
             : duration(setting_.program, setting_.costs, device, instruction);
}

bool Collectives::complete(const Meeting& meeting, const Instruction& instruction) const {
  const Program& program = setting_.program;
  const int there = static_cast<int>(meeting.members.size());
  if (instruction.op == Op::Norm) return there == program.devices;
  if (instruction.op != Op::Tie) return there == program.replicas;
  const schedule::Tie& tie = program.ties[instruction.edge];
  return there == (program.placement[tie.first][0] == program.placement[tie.second][0] ? 1 : 2);
}

Collectives::Meeting& Collectives::join(int device, const Instruction& instruction) {
  const bool tie = instruction.op == Op::Tie;
  const Key which = {instruction.op, tie ? instruction.edge : instruction.stage,
                     instruction.segment};
  // Replicas tie among themselves; the other collectives run across them.
  const int group = tie ? setting_.topology.replica[device] : 0;
  Meeting& meeting = meetings_[{which, group, devices_[device].entered[which]++}];
  meeting.members.push_back(device);
  return meeting;
}

void Collectives::enter(int device, const Instruction& instruction, double time) {
  Meeting& meeting = join(device, instruction);
  devices_[device].since = time;
  devices_[device].waits = true;
  if (!complete(meeting, instruction)) return;
  for (const int member : meeting.members) {
    const double end = time + length(member, instruction);
    const double since = devices_[member].since;
    if (since < time) timeline_.add(member, SpanKind::Wait, since, time, instruction);
    timeline_.add(member, SpanKind::Collective, time, end, instruction);
    devices_[member].waits = false;
    timeline_.wake(member, end);
  }
}

bool Collectives::exchange(int device, const Instruction& step, double time) {
  if (exchanges_[device] <= 0) return false;
  Instruction among_replicas = step;
  among_replicas.stage = setting_.topology.stages[device].front();
  enter(device, among_replicas, time);
  return true;
}

void Collectives::post(int device, const Instruction& instruction, double time) {
  Meeting& meeting = join(device, instruction);
  devices_[device].posted.push_back({instruction, &meeting});
  if (!complete(meeting, instruction)) return;
  for (const int member : meeting.members)
    devices_[member].work += own_work(setting_.program, setting_.costs, instruction);
  meeting.end = time + length(device, instruction);
  for (const int waiting : std::exchange(meeting.waiting, {})) timeline_.wake(waiting, meeting.end);
}

bool Collectives::needs(const Instruction& instruction, const Instruction& posted) const {
  if (posted.op == Op::Gather)
    return schedule::is_compute(instruction.op) && instruction.stage == posted.stage &&
           instruction.segment == posted.segment;
  return instruction.op == Op::Norm || instruction.op == Op::Tie ||
         (instruction.op == Op::Reduce && setting_.costs.reduces_in_turn);
}

bool Collectives::blocks(int device, const Instruction& instruction, double time) {
  std::vector<Posted>& posted = devices_[device].posted;
  for (std::size_t i = 0; i < posted.size();) {
    if (!needs(instruction, posted[i].instruction)) {
      ++i;
      continue;
    }
    Meeting& meeting = *posted[i].meeting;
    if (meeting.end == kNotYet) {
      meeting.waiting.push_back(device);
      return true;
    }
    if (meeting.end > time) {
      timeline_.wake(device, meeting.end);
      return true;
    }
    posted.erase(posted.begin() + static_cast<std::ptrdiff_t>(i));
  }
  return false;
}

double Collectives::take_work(int device) {
  return std::exchange(devices_[device].work, 0.0);
}

void Collectives::waited(int device, double seconds) {
  devices_[device].work = std::max(0.0, devices_[device].work - seconds);
}

}  // namespace cleave::plan::simulation
