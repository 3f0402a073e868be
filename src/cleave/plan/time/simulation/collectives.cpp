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

/// [device] From when on it counts the duration of a NORM to which all have come, over links with a
/// way: it has the numbers of all after that way. Whoever comes last finds those of the others
/// there, as far as they had time to travel.
std::vector<double> Collectives::begins_of_norm() const {
  const SimulateOptions& options = context_.options;
  std::vector<double> heard;
  for (const Device& device : devices_) heard.push_back(device.since);
  for (const std::vector<Hearing>& round : options.norm_rounds) {
    const std::vector<double> before = heard;
    for (std::size_t d = 0; d < round.size(); ++d)
      if (round[d].from >= 0)
        heard[d] = std::max(before[d], before[round[d].from] + round[d].seconds);
  }
  std::vector<double> begins;
  for (std::size_t d = 0; d < devices_.size(); ++d) {
    begins.push_back(heard[d] - options.norm_way);
    for (std::size_t other = 0; options.norm_rounds.empty() && other < devices_.size(); ++other)
      if (other != d) begins[d] = std::max(begins[d], devices_[other].since);
  }
  return begins;
}

/// When `member` has the sum of a TIE whose last member came at `time`. Either device adds up one
/// half, once what the other has of it has come, and sends that back. So the last to come waits for
/// two ways, there and back, and the first for one: what the last brings, and its half of the sum.
double Collectives::tied_at(int member, const Meeting& meeting, double seconds, double time) const {
  if (meeting.members.size() < 2 || context_.options.norm_way == 0) return time + seconds;
  const int other = meeting.members[meeting.members.front() == member ? 1 : 0];
  return std::max(devices_[member].since + seconds, devices_[other].since + seconds / 2);
}

void Collectives::enter(int device, const Instruction& instruction, double time) {
  Meeting& meeting = join(device, instruction);
  devices_[device].since = time;
  devices_[device].waits = true;
  if (!complete(meeting, instruction)) return;
  const bool has_way = instruction.op == Op::Norm && context_.options.norm_way > 0;
  const std::vector<double> begins =
      has_way ? begins_of_norm() : std::vector<double>(devices_.size(), time);
  for (const int member : meeting.members) {
    const double counted = begins[member];
    const double seconds = duration(context_.program, context_.costs, member, instruction);
    const double end = instruction.op == Op::Tie ? tied_at(member, meeting, seconds, time)
                                                 : std::max(time, counted + seconds);
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

bool Collectives::blocks(int device, const Instruction& wait, double time) {
  std::vector<Posted>& posted = devices_[device].posted;
  const auto completed = std::ranges::find_if(posted, [&](const Posted& p) {
    return p.instruction.op == wait.completes && p.instruction.stage == wait.stage &&
           p.instruction.segment == wait.segment;
  });
  CLEAVE_CHECK(completed != posted.end(), to_string(wait), " completes nothing");
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
