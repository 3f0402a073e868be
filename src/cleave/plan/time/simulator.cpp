#include "cleave/plan/time/simulator.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "cleave/base/check.h"
#include "cleave/plan/time/simulation/collectives.h"
#include "cleave/plan/time/simulation/cores.h"
#include "cleave/plan/time/simulation/messages.h"
#include "cleave/plan/time/simulation/moves.h"
#include "cleave/plan/time/simulation/simulation_context.h"
#include "cleave/plan/time/simulation/timeline.h"
#include "cleave/schedule/effects.h"

namespace cleave::plan {

using schedule::Instruction;
using schedule::Op;
using schedule::Program;

namespace {

/// Goes through the lists of all devices in the order of virtual time.
class Simulation {
 public:
  Simulation(const Program& program, const Costs& costs, const SimulateOptions& options)
      : context_{program, costs, options, schedule::Topology(program)},
        devices_(program.devices),
        moves_(context_, timeline_),
        messages_(context_, timeline_, moves_),
        collectives_(context_, timeline_),
        cores_(std::max(1, static_cast<int>(options.at_once))) {}

  Trace run() {
    Trace& trace = timeline_.trace;
    trace.name = context_.program.schedule;
    trace.unit = context_.costs.unit;
    trace.devices = context_.program.devices;
    trace.spans.reserve(span_bound());
    const std::vector<double>& starts = context_.options.starts;
    for (int d = 0; d < context_.program.devices; ++d)
      timeline_.wake(d, starts.empty() ? 0 : starts[d]);
    for (;;) {
      const double computed = cores_.next(), passed = messages_.next();
      if (passed < simulation::kNever && passed <= std::min(timeline_.next(), computed)) {
        messages_.advance();
      } else if (timeline_.next() < computed) {
        const auto [time, device] = timeline_.pop();
        resume(device, time);
      } else if (computed < simulation::kNever) {
        end_computation();
      } else {
        break;
      }
    }
    require_finished();
    return std::move(trace);
  }

 private:
  struct Device {
    std::size_t next = 0;                    ///< instruction to start
    const Instruction* computing = nullptr;  ///< what ends now
    double blocked_since = 0;                ///< start of the wait in front of instruction `next`
    bool blocked = false;
  };

  std::size_t span_bound() const {
    std::size_t bound = 0;
    for (const auto& list : context_.program.lists) bound += list.size() + list.size() / 4;
    return bound;
  }

  void end_computation() {
    const auto [device, begin, end] = cores_.advance();
    const Instruction& instruction = *devices_[device].computing;
    timeline_.add(device, kind_of(instruction), begin, end, instruction);
    resume(device, end);
    cores_.release();
  }

  // Goes on with a device at `time` until it blocks or starts something that takes time.
  void resume(int d, double time) {
    Device& device = devices_[d];
    const std::vector<Instruction>& list = context_.program.lists[d];
    if (const Instruction* ended = std::exchange(device.computing, nullptr))
      messages_.post_implied(d, *ended, time);
    while (device.next < list.size()) {
      const Instruction& instruction = list[device.next];
      if (blocks(d, instruction, time)) {
        if (!std::exchange(device.blocked, true)) device.blocked_since = time;
        return;
      }
      end_wait(d, instruction, time);
      ++device.next;
      if (start(d, instruction, time)) return;
    }
  }

  bool blocks(int d, const Instruction& instruction, double time) {
    if (instruction.op != Op::Wait || schedule::is_message(instruction))
      return messages_.blocks(d, instruction, time);
    if (schedule::is_move(instruction)) return moves_.blocks(d, instruction, time);
    return collectives_.blocks(d, instruction, time);
  }

  void end_wait(int d, const Instruction& instruction, double time) {
    Device& device = devices_[d];
    if (!std::exchange(device.blocked, false) || device.blocked_since >= time) return;
    timeline_.add(d, SpanKind::Wait, device.blocked_since, time, instruction);
    collectives_.waited(d, time - device.blocked_since);
  }

  // Starts `instruction`; true if the device is then occupied and will be woken.
  bool start(int d, const Instruction& instruction, double time) {
    const schedule::Effects& effects = schedule::effects(instruction.op);
    if (instruction.op == Op::Wait) return add_up(d, instruction, time);
    if (instruction.op == Op::Free) return false;
    if (effects.posts) {
      if (schedule::is_message_move(instruction)) return false;  // with its message
      if (schedule::is_message(instruction))
        messages_.post(d, instruction, time);
      else if (schedule::is_move(instruction))
        moves_.post(d, instruction, time);
      else
        collectives_.post(d, instruction, time);
      return false;
    }
    if (effects.members != schedule::Members::Alone) {
      collectives_.enter(d, instruction, time);
      return true;
    }
    occupy(d, instruction, time,
           duration(context_.program, context_.costs, d, instruction) + collectives_.take_work(d));
    return true;
  }

  // A sum is not there before this device has added up its part of it.
  bool add_up(int d, const Instruction& wait, double time) {
    const double work = wait.completes == Op::Reduce ? collectives_.take_work(d) : 0;
    if (work > 0) occupy(d, wait, time, work);
    return work > 0;
  }

  // What occupies a device at a WAIT is its part of a sum.
  static SpanKind kind_of(const Instruction& instruction) {
    return instruction.op == Op::Wait ? SpanKind::Collective : span_kind(instruction.op);
  }

  void occupy(int d, const Instruction& instruction, double time, double length) {
    devices_[d].computing = &instruction;
    if (context_.options.at_once > 0) return cores_.compute(d, time, length);
    timeline_.add(d, kind_of(instruction), time, time + length, instruction);
    timeline_.wake(d, time + length);
  }

  void require_finished() const {
    for (int d = 0; d < context_.program.devices; ++d) {
      const auto& list = context_.program.lists[d];
      const std::size_t at = devices_[d].next - (collectives_.waits(d) ? 1 : 0);
      if (at == list.size()) continue;
      throw UserError(detail::concat("the program deadlocks: device ", d, " waits for ever at ",
                                     schedule::to_string(list[at]), " (instruction ", at, " of ",
                                     list.size(), "); `cleave verify` prints the cycle"));
    }
  }

  simulation::SimulationContext context_;
  simulation::Timeline timeline_;
  std::vector<Device> devices_;
  simulation::Moves moves_;
  simulation::Messages messages_;
  simulation::Collectives collectives_;
  simulation::Cores cores_;  ///< idle unless devices share cores
};

}  // namespace

Trace simulate(const Program& program, const Costs& costs, const SimulateOptions& options) {
  check(program, costs);
  return Simulation(program, costs, options).run();
}

}  // namespace cleave::plan
