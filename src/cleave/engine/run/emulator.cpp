#include "cleave/engine/run/emulator.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include <sys/prctl.h>

#include "cleave/engine/run/emulated_memory.h"
#include "cleave/schedule/effects.h"

namespace cleave::engine {

using schedule::Instruction;
using schedule::Op;

namespace {

bool completes(const Instruction& wait, const Instruction& posted) {
  return wait.completes == posted.op && wait.stage == posted.stage &&
         wait.segment == posted.segment;
}

}  // namespace

Emulator::Emulator(const schedule::Program& program, plan::Costs costs, int place,
                   const Peers& peers, comm::Communicator& group, Jitter jitter)
    : program_(&program),
      costs_(std::move(costs)),
      place_(place),
      group_(group),
      jitter_(std::move(jitter)) {
  // Linux may oversleep by 50 us otherwise.
  prctl(PR_SET_TIMERSLACK, 1UL, 0UL, 0UL, 0UL);
  replicas_.resize(program.stages);
  for (int s = 0; s < program.stages; ++s) {
    const std::vector<int> members = holders_of(program, s);
    if (std::ranges::find(members, place) != members.end()) replicas_[s] = peers.group(members);
  }
}

Emulator::Clock::duration Emulator::seconds_of(const Instruction& instruction) const {
  // Slow devices and many layers multiply what a user gives; the clock counts up to 292 years.
  constexpr double kLongestTime = 1e9;
  double seconds = plan::duration(*program_, costs_, place_, instruction);
  if (jitter_ && schedule::is_compute(instruction.op)) seconds += jitter_(instruction);
  return std::chrono::duration_cast<Clock::duration>(
      std::chrono::duration<double>(std::min(seconds, kLongestTime)));
}

/// Notes which exchanges have begun.
void Emulator::look() {
  for (EmulatedCollective& exchange : exchanges_)
    if (exchange.meeting.in_flight() && exchange.meeting.done())
      exchange.end = Clock::now() + seconds_of(exchange.instruction);
}

void Emulator::finish(const Instruction& wait) {
  for (EmulatedCollective& exchange : exchanges_) {
    if (!completes(wait, exchange.instruction)) continue;
    if (exchange.meeting.in_flight()) {
      exchange.meeting.wait();
      exchange.end = Clock::now() + seconds_of(exchange.instruction);
    }
    if (Clock::now() < exchange.end) sleep_exactly_until(exchange.end);
  }
  std::erase_if(exchanges_,
                [&](const EmulatedCollective& e) { return completes(wait, e.instruction); });
}

void Emulator::run(const Instruction& instruction) {
  look();
  if (instruction.op == Op::Wait) return finish(instruction);
  if (schedule::is_posted_collective(instruction.op)) {
    if (replicas_[instruction.stage]->size() == 1) return;
    exchanges_.push_back({instruction, replicas_[instruction.stage]->barrier(), {}});
    return;
  }
  const Clock::duration length = seconds_of(instruction);
  if (length.count() > 0) sleep_exactly_until(Clock::now() + length);
  if (schedule::is_compute(instruction.op)) group_.barrier().wait();
}

bool Emulator::has_slow_link(const Instruction& message) const {
  const auto edge = static_cast<std::size_t>(message.edge);
  return edge < costs_.edges.size() && costs_.edges[edge].latency > 0;
}

void Emulator::before_post(const LinkedInstruction& posted) {
  if (!has_slow_link(posted.instruction)) return;
  const Clock::time_point now = Clock::now();
  if (posted.instruction.op == Op::Send) {
    std::memcpy(posted.message.data(), &now, std::min(sizeof now, posted.message.size()));
    return;
  }
  const auto slot = static_cast<std::size_t>(posted.slot);
  if (arrivals_.size() <= slot) arrivals_.resize(slot + 1);
  arrivals_[slot] = {posted.instruction.edge, now, posted.message};
}

void Emulator::after_wait(const LinkedInstruction& wait) {
  if (wait.instruction.completes != Op::Receive || !has_slow_link(wait.instruction)) return;
  const EmulatedArrival& arrival = arrivals_[static_cast<std::size_t>(wait.slot)];
  const plan::LinkCosts& link = costs_.edges[static_cast<std::size_t>(arrival.edge)];
  const auto after = [](double seconds) {
    return std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(seconds));
  };
  Clock::time_point begin = arrival.posted + after(link.credit);
  Clock::time_point sent = begin;
  if (arrival.message.size() >= sizeof sent)
    std::memcpy(&sent, arrival.message.data(), sizeof sent);
  begin = std::max(begin, sent) + after(link.latency);
  if (Clock::now() < begin) sleep_exactly_until(begin);
}

}  // namespace cleave::engine
