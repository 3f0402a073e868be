#include "cleave/plan/time/simulation/collectives.h"

#include <algorithm>
#include <utility>

#include "cleave/base/check.h"
#include "cleave/schedule/effects.h"

namespace cleave::plan::simulation {

using schedule::Instruction;
using schedule::Members;
using schedule::Op;
using schedule::Program;

Collectives::Collectives(const SimulationContext& context, Timeline& timeline)
    : context_(context), timeline_(timeline), devices_(context.program.devices) {}

int Collectives::member_count(const Instruction& instruction) const {
  const Program& program = context_.program;
  switch (effects(instruction.op).members) {
    case Members::All:
      return program.devices;
    case Members::Replicas:
      return context_.topology.holders(program.placement[instruction.stage][0]);
    default:
      break;
  }
  const schedule::Tie& tie = program.ties[instruction.edge];
  return program.placement[tie.first][0] == program.placement[tie.second][0] ? 1 : 2;
}

bool Collectives::complete(const Meeting& meeting, const Instruction& instruction) const {
  return static_cast<int>(meeting.members.size()) == member_count(instruction);
}

Collectives::Meeting& Collectives::join(int device, const Instruction& instruction) {
  const bool tie = effects(instruction.op).members == Members::Tied;
  const Key which = {instruction.op, tie ? instruction.edge : instruction.stage,
                     instruction.segment};
  // Replicas tie among themselves; the other collectives run across them.
  const int group = tie ? context_.topology.replica[device] : 0;
  Meeting& meeting = meetings_[{which, group, devices_[device].entered[which]++}];
  meeting.members.push_back(device);
  return meeting;
}

/// From when on `member` counts the collective's duration: when the last of them came, at `time`.
/// The last to come to a NORM finds the numbers of the others there, as far as they had time to
/// travel.
double Collectives::begin_for(int member, const Meeting& meeting, const Instruction& instruction,
                              double time) const {
  const double way = context_.options.norm_way;
  if (instruction.op != Op::Norm || way == 0) return time;
  double begin = devices_[member].since - way;
  for (const int other : meeting.members)
    if (other != member) begin = std::max(begin, devices_[other].since);
  return begin;
}

void Collectives::enter(int device, const Instruction& instruction, double time) {
  Meeting& meeting = join(device, instruction);
  devices_[device].since = time;
  devices_[device].waits = true;
  if (!complete(meeting, instruction)) return;
  for (const int member : meeting.members) {
    const double counted = begin_for(member, meeting, instruction, time);
    const double end =
        std::max(time, counted + duration(context_.program, context_.costs, member, instruction));
    const double since = devices_[member].since;
    const double begin = std::max(since, counted);
    if (since < begin) timeline_.add(member, SpanKind::Wait, since, begin, instruction);
    timeline_.add(member, SpanKind::Collective, begin, end, instruction);
    devices_[member].waits = false;
    timeline_.wake(member, end);
  }
}

void Collectives::post(int device, const Instruction& instruction, double time) {
  Meeting& meeting = join(device, instruction);
  devices_[device].posted.push_back({instruction, &meeting});
  if (!complete(meeting, instruction)) return;
  double begin = time;
  for (const int member : meeting.members) {
    devices_[member].work += own_work(context_.program, context_.costs, instruction);
    // What a device refreshes of several stages goes out one after another.
    if (instruction.op == Op::Refresh) begin = std::max(begin, devices_[member].refreshed);
  }
  meeting.end = begin + duration(context_.program, context_.costs, device, instruction);
  if (instruction.op == Op::Refresh)
    for (const int member : meeting.members) devices_[member].refreshed = meeting.end;
  for (const int waiting : std::exchange(meeting.waiting, {})) timeline_.wake(waiting, meeting.end);
}

bool Collectives::blocks(int device, const Instruction& instruction, double time) {
  if (instruction.op != Op::Wait || schedule::is_message(instruction) ||
      schedule::is_move(instruction))
    return false;
  std::vector<Posted>& posted = devices_[device].posted;
  const auto completed = std::ranges::find_if(posted, [&](const Posted& p) {
    return p.instruction.op == instruction.completes && p.instruction.stage == instruction.stage &&
           p.instruction.segment == instruction.segment;
  });
  CLEAVE_CHECK(completed != posted.end(), to_string(instruction), " completes nothing");
  Meeting& meeting = *completed->meeting;
  if (meeting.end == kNotYet) {
    meeting.waiting.push_back(device);
    return true;
  }
  if (meeting.end > time) {
    timeline_.wake(device, meeting.end);
    return true;
  }
  posted.erase(completed);
  return false;
}

double Collectives::take_work(int device) {
  return std::exchange(devices_[device].work, 0.0);
}

void Collectives::waited(int device, double seconds) {
  devices_[device].work = std::max(0.0, devices_[device].work - seconds);
}

}  // namespace cleave::plan::simulation
