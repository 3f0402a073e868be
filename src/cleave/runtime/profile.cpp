#include "cleave/runtime/profile.h"

#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

#include "cleave/runtime/link_profile.h"

namespace cleave::runtime {
namespace {

// What the devices tell each other: [norm, then STEP of every device, then F, I, W, R of every
// stage].
constexpr int kPasses = 4;

// Enough of a step to see its caches at work, and long enough to even out disturbances.
constexpr int kMicrobatches = 3;
constexpr int kRounds = 2;
constexpr double kShortest = 0.2;  // seconds

/// All devices rehearse, those of `at_once` places at the same time. The devices at a place need
/// each other, so they agree on how often.
class Turns {
 public:
  Turns(const CompiledStep& step, Device& device, const StepInput& input, comm::Communicator* world,
        int at_once)
      : device_(device),
        input_(input),
        world_(world),
        places_(step.program.devices),
        at_once_(std::max(1, at_once)),
        rehearsal_(step.program.stages) {}

  Rehearsal run() && {
    const int rounds = rounds_for(touch_memory());
    for (int first = 0; first < places_; first += at_once_) {
      const bool turn = device_.place() >= first && device_.place() < first + at_once_;
      meet();
      for (int i = 0; i < rounds && turn; ++i)
        device_.executor().rehearse_passes(input_, kMicrobatches, rehearsal_);
      for (int i = 0; i <= kRounds; ++i) {
        meet();
        if (turn) device_.executor().rehearse_update(input_, rehearsal_);
      }
    }
    return std::move(rehearsal_);
  }

 private:
  void meet() {
    if (world_ != nullptr) world_->barrier().wait();
  }

  /// [place] -> seconds for a round.
  std::vector<double> touch_memory() {
    Rehearsal first(static_cast<int>(rehearsal_.stages.size()));
    std::vector<double> seconds(places_);
    seconds[device_.place()] = device_.executor().rehearse_passes(input_, kMicrobatches, first);
    device_.executor().rehearse_update(input_, first);
    if (world_ != nullptr) world_->combine(seconds, comm::Combine::Max);
    return seconds;
  }

  /// As many as it takes to be at work for as long as the slowest place.
  int rounds_for(const std::vector<double>& seconds) const {
    const double longest = std::max(kShortest, kRounds * *std::ranges::max_element(seconds));
    const double rounds = std::ceil(longest / std::max(1e-6, seconds[device_.place()]));
    return static_cast<int>(std::clamp(rounds, double{kRounds}, 1000.0));
  }

  Device& device_;
  const StepInput& input_;
  comm::Communicator* world_;
  int places_;
  int at_once_;
  Rehearsal rehearsal_;
};

std::vector<double> share(const Rehearsal& mine, const schedule::Program& program, int device,
                          comm::Communicator* world) {
  std::vector<double> numbers(1 + program.devices + kPasses * program.stages);
  numbers[0] = mine.norm.typical();
  numbers[1 + device] = mine.step.typical();
  for (int s = 0; s < program.stages; ++s) {
    double* passes = &numbers[1 + program.devices + kPasses * s];
    const plan::StageCosts costs = mine.costs(s);
    passes[0] = costs.forward;
    passes[1] = costs.input;
    passes[2] = costs.weight;
    passes[3] = costs.recompute;
  }
  // Replicas of a stage may differ: the slowest counts.
  if (world != nullptr) world->combine(numbers, comm::Combine::Max);
  return numbers;
}

/// Sums over devices, from what a message takes: every byte goes there and comes back as a sum.
void add_sums(const CompiledStep& step, const std::vector<plan::LinkCosts>& links,
              plan::Costs& costs) {
  plan::LinkCosts slowest;
  for (const plan::LinkCosts& link : links) {
    slowest.latency = std::max(slowest.latency, link.latency);
    slowest.per_byte = std::max(slowest.per_byte, link.per_byte);
  }
  for (const schedule::Tie& tie : step.program.ties) {
    costs.ties.push_back(2 * (slowest.latency + slowest.per_byte * static_cast<double>(tie.bytes)));
  }
  const double replicas = step.program.replicas;
  for (int s = 0; s < step.program.stages && replicas > 1; ++s) {
    double elements = 0;
    for (const SegmentSpec& segment : step.stages[s])
      elements += static_cast<double>(parameter_count(segment));
    const auto moving = [&](DType dtype) {
      const double bytes = elements * static_cast<double>(size_of(dtype));
      return slowest.latency + slowest.per_byte * bytes * (replicas - 1) / replicas;
    };
    costs.stages[s].reduce = (step.zero > 0 ? 1 : 2) * moving(DType::F32);
    costs.stages[s].gather = moving(step.model.flow.dtype);
  }
}

}  // namespace

plan::Costs profile(const CompiledStep& step, Device& device, const StepInput& input,
                    comm::Communicator* world, double at_once) {
  const schedule::Program& program = step.program;
  device.initialise(/*seed=*/0);  // pages that were never written cost less to read
  const int places = std::max(1, static_cast<int>(at_once) / step.mesh.tensor);
  const Rehearsal mine = Turns(step, device, input, world, places).run();
  const std::vector<double> numbers = share(mine, program, device.place(), world);
  device.clear_moments();

  plan::Costs costs;
  // All devices add up their squares at the same time, as far as there are cores for them.
  costs.norm = numbers[0] * std::max(1.0, static_cast<double>(program.devices) / places);
  costs.steps.assign(numbers.begin() + 1, numbers.begin() + 1 + program.devices);
  for (int s = 0; s < program.stages; ++s) {
    const double* passes = &numbers[1 + program.devices + kPasses * s];
    costs.stages.push_back(
        {.forward = passes[0], .input = passes[1], .weight = passes[2], .recompute = passes[3]});
  }
  if (world != nullptr) {
    if (device.peers() != nullptr) costs.edges = profile_links(program, *device.peers());
    costs.norm += profile_combine(*world, static_cast<int>(step.tensor_names.size()));
  }
  add_sums(step, costs.edges, costs);
  return costs;
}

}  // namespace cleave::runtime
