#include "cleave/engine/compile/patterns.h"

#include <algorithm>
#include <set>

#include "cleave/base/check.h"
#include "cleave/engine/compile/optional_stages.h"
#include "cleave/engine/compile/step_stages.h"
#include "cleave/engine/compile/traffic.h"
#include "cleave/parallel/sharded_layers.h"
#include "cleave/schedule/graph.h"
#include "cleave/schedule/leave_out.h"
#include "cleave/schedule/verifier.h"

// Those microbatches of a step that have optional inputs come first and are dealt to the data
// shards like cards, so that their number says which stages take part where. The planned program
// has room for as many rounds of cards as any step needs, and at least for one.

namespace cleave::engine {
namespace {

using schedule::Absence;

/// Of the microbatches of a step, in the order in which those with optional inputs come first.
struct Dealt {
  int replicas = 1;
  int microbatches = 1;  ///< of a replica
  ShardFold fold;

  int number_of(ReplicaId replica, MicrobatchId microbatch) const {
    const int round = microbatch % fold.per_shard();
    const int shard = replica * fold.shards + fold.shard_of(microbatch);
    return round * replicas * fold.shards + shard;
  }
};

/// Where optional stages are absent if `with` microbatches have optional inputs.
template <class NumberOf>
std::vector<Absence> absences(const CompiledStep& step, int replicas, int microbatches, int with,
                              NumberOf number_of) {
  std::vector<Absence> absent;
  for (const int stage : optional_stages(step)) {
    for (MicrobatchId m{0}; m < microbatches; ++m) {
      for (ReplicaId r{0}; r < replicas; ++r)
        if (number_of(r, m) >= with) absent.push_back({stage, m, r});
    }
  }
  return absent;
}

void check_sound_pattern(const schedule::Program& program, schedule::Level level) {
  const auto violations = schedule::verify(program, level);
  CLEAVE_CHECK(violations.empty(), "a program that leaves stages out is not sound: ",
               to_string(program, violations[0]));
}

/// [number at a place][stage]: of a tied weight a device plans what goes to a stage elsewhere.
Stages stages_by_number(const CompiledStep& step, const CompileOptions& options) {
  Stages stages;
  for (int number = 0; number < step.mesh.most_at_a_place(); ++number)
    stages.push_back(
        stages_of_number(step, number, parallel::sharded_layers(options.kinds, nullptr)));
  return stages;
}

/// What the devices of the run send in a step.
std::vector<comm::Sent> traffic_of(const CompiledStep& step, const schedule::Program& program,
                                   const Stages& by_number) {
  std::vector<comm::Sent> traffic;
  for (int device = 0; device < step.devices(); ++device) {
    std::vector<const Stage*> own;
    for (const auto& stage : by_number[step.mesh.number_of(device)]) own.push_back(stage.get());
    traffic.push_back(planned_traffic(traffic_parts(step, program, own, device)));
  }
  return traffic;
}

void add_step_patterns(CompiledStep& step, const CompileOptions& options) {
  const Dealt dealt{step.program.replicas, step.program.microbatches, step.fold};
  const auto number_of = [&](ReplicaId replica, MicrobatchId m) {
    return dealt.number_of(replica, m);
  };
  const schedule::Program planned = step.program;
  const Stages by_number = stages_by_number(step, options);
  for (const InputCount& count : options.optional_inputs) {
    StepPattern pattern;
    pattern.program = schedule::leave_out(
        planned, absences(step, dealt.replicas, dealt.microbatches, count.microbatches, number_of));
    pattern.traffic = traffic_of(step, pattern.program, by_number);
    check_sound_pattern(pattern.program, schedule::Level::Final);
    step.patterns.push_back(std::move(pattern));
  }
  step.input_counts = options.optional_inputs;
  step.program = std::move(step.patterns.back().program);
  step.traffic = std::move(step.patterns.back().traffic);
  step.patterns.pop_back();
}

void add_evaluation_patterns(CompiledStep& step, const CompileOptions& options) {
  const int replicas = step.program.replicas;
  const int at_once = step.evaluation.microbatches;
  const std::int64_t of_pass = std::int64_t{replicas} * at_once;
  std::set<std::int64_t> counts;
  const EvaluatedInputs& inputs = options.evaluated_inputs;
  for (std::int64_t begin = 0; begin < inputs.microbatches; begin += of_pass)
    counts.insert(std::clamp<std::int64_t>(inputs.with - begin, 0, of_pass));
  counts.erase(of_pass);
  for (const std::int64_t count : counts) {
    const int with = static_cast<int>(count);
    const auto number_of = [&](ReplicaId replica, MicrobatchId m) { return replica * at_once + m; };
    schedule::Program program =
        schedule::leave_out(step.evaluation, absences(step, replicas, at_once, with, number_of));
    check_sound_pattern(program, schedule::Level::Forward);
    step.evaluations.push_back({.program = std::move(program)});
    step.evaluated_counts.push_back(with);
  }
}

}  // namespace

void leave_out_never_present(CompiledStep& step, const CompileOptions& options) {
  if (options.optional_inputs.empty()) return;
  const int shards = options.layout.replicas() * step.fold.shards;
  const int most = std::max(1, options.optional_inputs.back().microbatches);
  const int rounds = (most + shards - 1) / shards;
  for (const int stage : optional_stages(step)) {
    for (int m = 0; m < step.program.microbatches; ++m)
      if (m % step.fold.per_shard() >= rounds) step.program.absent.push_back({stage, m});
  }
  if (!step.program.absent.empty()) schedule::leave_out_undemanded(step.program);
}

void add_patterns(CompiledStep& step, const CompileOptions& options) {
  if (!options.optional_inputs.empty()) add_step_patterns(step, options);
  if (options.leaves_out()) add_evaluation_patterns(step, options);
}

}  // namespace cleave::engine
