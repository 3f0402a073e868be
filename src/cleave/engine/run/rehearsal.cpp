#include "cleave/engine/run/rehearsal.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <ctime>
#include <map>
#include <set>
#include <tuple>
#include <utility>

#include "cleave/engine/run/executor.h"

namespace cleave::engine {

using schedule::Instruction;
using schedule::Op;

namespace {

/// Received bytes are made up of this one: 0.0115 in f32 and in bf16, so that no kernel stumbles
/// over numbers that training does not have.
constexpr std::byte kReceived{0x3c};

/// Time, and how much of it this thread had a core.
class Stopwatch {
 public:
  void start() {
    wall_ -= now(CLOCK_MONOTONIC);
    thread_ -= now(CLOCK_THREAD_CPUTIME_ID);
  }
  void stop() {
    wall_ += now(CLOCK_MONOTONIC);
    thread_ += now(CLOCK_THREAD_CPUTIME_ID);
  }
  void add_to(Rehearsal::SharedWork& exchange, double share = 1) const {
    exchange.seconds.add(wall_ * share);
    exchange.work.add(std::min(wall_, thread_) * share);
  }

 private:
  static double now(clockid_t clock) {
    timespec time{};
    clock_gettime(clock, &time);
    return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
  }

  double wall_ = 0;
  double thread_ = 0;
};

/// The first of `count` microbatches whose backward comes in two parts, if it does for any.
int first_to_rehearse(const LinkedProgram& program, int microbatches, int count) {
  int first = microbatches;
  for (const LinkedInstruction& entry : program.instructions)
    if (entry.instruction.op == Op::BackwardInput)
      first = std::min(first, entry.instruction.microbatch);
  return first == microbatches ? 0 : std::max(0, std::min(first, microbatches - count));
}

}  // namespace

double Samples::quantile(double share) const {
  if (values_.empty()) return 0;
  std::vector<double> values = values_;
  std::ranges::sort(values);
  const double at = share * static_cast<double>(values.size() - 1);
  const auto below = static_cast<std::size_t>(at);
  const std::size_t above = std::min(below + 1, values.size() - 1);
  return std::lerp(values[below], values[above], at - static_cast<double>(below));
}

Samples& Rehearsal::of(Op op, Stage& stage) {
  switch (op) {
    case Op::Forward:
      return stage.forward;
    case Op::BackwardInput:
      return stage.input;
    case Op::BackwardWeight:
      return stage.weight;
    case Op::Recompute:
      return stage.recompute;
    default:
      return stage.backward;
  }
}

namespace {

plan::StageCosts costs_of(const Rehearsal::Stage& measured, double share) {
  // A list has a stage's backward in two parts, or in one, or both: the parts tell more.
  const bool split = !measured.input.empty();
  return {.forward = measured.forward.quantile(share),
          .input = split ? measured.input.quantile(share) : measured.backward.quantile(share),
          .weight = measured.weight.quantile(share),
          .recompute = measured.recompute.quantile(share),
          .gather = measured.gather.seconds.quantile(share),
          .gather_work = measured.gather.work.quantile(share),
          .reduce = measured.reduce.seconds.quantile(share),
          .reduce_work = measured.reduce.work.quantile(share),
          .collect = measured.collect.seconds.quantile(share)};
}

}  // namespace

plan::StageCosts Rehearsal::costs(int stage, double share) const {
  return costs_of(stages.at(stage), share);
}

plan::StageCosts Rehearsal::costs_of_segment(StageId stage, SegmentId segment, double share) const {
  const auto found = segments.find({stage, segment});
  return found == segments.end() ? plan::StageCosts{} : costs_of(found->second, share);
}

// What follows belongs to Executor: it runs the device's own instructions, without the others.

double Executor::time_of(const LinkedInstruction& entry, const StepInput& input) {
  const Clock::time_point start = Clock::now();
  execute(entry, input);
  parts_.compute->finish();
  return std::chrono::duration<double>(Clock::now() - start).count();
}

/// A tie that this device adds up by itself.
bool Executor::has_both_ends(const Instruction& tie) const {
  const schedule::Tie& uses = parts_.program->ties[tie.edge];
  return parts_.stages[uses.first] != nullptr && parts_.stages[uses.second] != nullptr;
}

/// Segments whose parameters would be gathered compute with what happens to be there.
void Executor::place_ungathered_values() {
  for (const LinkedInstruction& entry : parts_.linked.instructions) {
    const Instruction& i = entry.instruction;
    if (i.op != Op::Gather) continue;
    parts_.arena->memory().fill(entry.workspace, std::byte{0});
    parts_.stages[i.stage]->place_values(std::max(i.segment, 0), entry.workspace.data());
  }
}

/// What I and W read has to be there, or they would stumble over it.
void Executor::rehearse_move(const LinkedInstruction& entry, Rehearsal& into) {
  if (entry.instruction.op == Op::Wait) return;
  const Mover::Times times = moves_.carry_out(entry);
  const double seconds = std::chrono::duration<double>(times.end - times.begin).count();
  if (entry.outside.bytes > 0) into.outside.add(seconds / static_cast<double>(entry.outside.bytes));
}

/// What would have arrived is there afterwards.
void Executor::rehearse_message(const LinkedInstruction& entry, Rehearsal& into) {
  const bool out = entry.instruction.op == Op::Out;
  for (const Mover::Copy& copy : entry.copies)
    if (!out) std::memset(copy.outside, static_cast<int>(kReceived), copy.bytes);
  const Mover::Times times = host_messages_.carry_out(entry);
  // What a device keeps may move elsewhere, at another rate, and is more.
  if (parts_.linked.moves > 0 || entry.on_host.bytes == 0) return;
  const double seconds = std::chrono::duration<double>(times.end - times.begin).count();
  into.outside.add(seconds / static_cast<double>(entry.on_host.bytes));
}

/// A few tell the rate: a disk would take long for all of them in every round.
void Executor::rehearse_state_moves(Rehearsal& into) {
  constexpr std::size_t kMoves = 8;
  for (const LinkedInstruction& entry : parts_.linked.instructions) {
    if (into.outside.count() >= kMoves) return;
    if (schedule::is_state_move(entry.instruction)) rehearse_move(entry, into);
  }
}

void Executor::compute_alone(const StepInput& input) {
  place_ungathered_values();
  for (const LinkedInstruction& entry : parts_.linked.instructions) {
    const Op op = entry.instruction.op;
    if (schedule::is_compute(op)) execute(entry, input);
    if (schedule::is_move(entry.instruction) && op != Op::Wait) moves_.carry_out(entry);
    if (op == Op::Step) step(entry.instruction, input);
    if (op == Op::Norm) sums_.square(*parts_.compute);
    if (op == Op::Tie && has_both_ends(entry.instruction)) execute(entry, input);
  }
}

double Executor::rehearse_passes(const StepInput& input, int microbatches, Rehearsal& into) {
  const Clock::time_point start = Clock::now();
  place_ungathered_values();
  const int first = first_to_rehearse(parts_.linked, microbatches_, microbatches);
  struct PassTime {
    double seconds = 0;
    std::set<int> microbatches;
  };
  std::map<std::pair<Op, int>, PassTime> passes;          // of a stage
  std::map<std::tuple<Op, int, int>, PassTime> segments;  // of a stage's segment
  for (const LinkedInstruction& entry : parts_.linked.instructions) {
    const Instruction& instruction = entry.instruction;
    if (instruction.microbatch < first || instruction.microbatch >= first + microbatches) continue;
    if (schedule::is_message_move(instruction)) rehearse_message(entry, into);
    if (instruction.op == Op::Receive && !passes_through_host())
      parts_.arena->memory().fill(entry.message, kReceived);
    if (instruction.op == Op::Wait) parts_.world->give_way();
    if (schedule::is_move(instruction)) rehearse_move(entry, into);
    if (!schedule::is_compute(instruction.op)) continue;
    const double seconds = time_of(entry, input);
    for (PassTime* pass :
         {&passes[{instruction.op, instruction.stage}],
          &segments[{instruction.op, instruction.stage, std::max(instruction.segment, 0)}]}) {
      pass->seconds += seconds;
      pass->microbatches.insert(instruction.microbatch);
    }
  }
  // Means, because a step adds up slow microbatches too.
  const auto mean = [](const PassTime& pass) {
    return pass.seconds / static_cast<double>(pass.microbatches.size());
  };
  for (const auto& [which, pass] : passes)
    Rehearsal::of(which.first, into.stages.at(which.second)).add(mean(pass));
  for (const auto& [which, pass] : segments) {
    const auto& [op, stage, segment] = which;
    Rehearsal::of(op, into.segments[{stage, segment}]).add(mean(pass));
  }
  return std::chrono::duration<double>(Clock::now() - start).count();
}

void Executor::rehearse_update(const StepInput& input, Rehearsal& into) {
  const Clock::time_point start = Clock::now();
  sums_.square(*parts_.compute);
  const Clock::time_point middle = Clock::now();
  for (const LinkedInstruction& entry : parts_.linked.instructions)
    if (entry.instruction.op == Op::Step) step(entry.instruction, input);
  parts_.compute->finish();
  into.norm.add(std::chrono::duration<double>(middle - start).count());
  into.step.add(std::chrono::duration<double>(Clock::now() - middle).count());
  rehearse_state_moves(into);
}

void Executor::rehearse_exchanges(Rehearsal& into) {
  std::map<std::pair<Op, int>, Stopwatch> stages;
  std::set<std::pair<int, int>> gathered;  // once, though a step gathers for every microbatch
  sync_.begin_step();
  for (const LinkedInstruction& entry : parts_.linked.instructions) {
    const Instruction& i = entry.instruction;
    const int segment = std::max(i.segment, 0);
    Stopwatch& watch = stages[{i.op, i.stage}];
    watch.start();
    if (i.op == Op::Tie) {
      into.ties[i.edge].add(time_of(entry, {}));
    } else if (i.op == Op::Reduce || i.op == Op::Refresh || i.op == Op::Collect ||
               (i.op == Op::Gather && gathered.insert({i.stage, segment}).second)) {
      collectives_.carry_out(entry);
    }
    watch.stop();
  }
  for (const auto& [what, watch] : stages) {
    if (what.first == Op::Reduce) watch.add_to(into.stages[what.second].reduce);
    if (what.first == Op::Collect) watch.add_to(into.stages[what.second].collect);
    if (what.first == Op::Gather || what.first == Op::Refresh)
      watch.add_to(into.stages[what.second].gather);
  }
}

}  // namespace cleave::engine
