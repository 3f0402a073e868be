#include "cleave/runtime/profile.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>
#include <vector>

#include "cleave/runtime/link_profile.h"

namespace cleave::runtime {
namespace {

// Of every stage.
constexpr std::array kStageCosts = {
    &plan::StageCosts::forward,   &plan::StageCosts::input,       &plan::StageCosts::weight,
    &plan::StageCosts::recompute, &plan::StageCosts::gather,      &plan::StageCosts::gather_work,
    &plan::StageCosts::reduce,    &plan::StageCosts::reduce_work,
};

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
        program_(step.program),
        rehearsal_(step.program) {}

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
    for (int i = 0; i <= kRounds; ++i) {
      meet();
      device_.executor().rehearse_exchanges(rehearsal_);
    }
    return std::move(rehearsal_);
  }

 private:
  void meet() {
    if (world_ != nullptr) world_->barrier().wait();
  }

  /// [place] -> seconds for a round.
  std::vector<double> touch_memory() {
    Rehearsal first(program_);
    std::vector<double> seconds(places_);
    seconds[device_.place()] = device_.executor().rehearse_passes(input_, kMicrobatches, first);
    device_.executor().rehearse_update(input_, first);
    device_.executor().rehearse_exchanges(first);
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
  const schedule::Program& program_;
  Rehearsal rehearsal_;
};

/// The costs of all devices from what each has measured: [norm, STEP of every device, every TIE,
/// everything of every stage]. Replicas of a stage may differ: the slowest counts.
plan::Costs share(const Rehearsal& mine, const schedule::Program& program, int device,
                  comm::Communicator* world) {
  std::vector<double> numbers = {mine.norm.typical()};
  for (int d = 0; d < program.devices; ++d)
    numbers.push_back(d == device ? mine.step.typical() : 0);
  for (const Samples& tie : mine.ties) numbers.push_back(tie.typical());
  for (int s = 0; s < program.stages; ++s)
    for (const auto cost : kStageCosts) numbers.push_back(mine.costs(s).*cost);
  if (world != nullptr) world->combine(numbers, comm::Combine::Max);

  plan::Costs costs;
  auto at = numbers.begin();
  costs.norm = *at++;
  costs.steps.assign(at, at + program.devices);
  at += program.devices;
  costs.ties.assign(at, at + std::ssize(program.ties));
  at += std::ssize(program.ties);
  costs.stages.resize(program.stages);
  for (plan::StageCosts& stage : costs.stages)
    for (const auto cost : kStageCosts) stage.*cost = *at++;
  return costs;
}

}  // namespace

plan::Costs profile(const CompiledStep& step, Device& device, const StepInput& input,
                    comm::Communicator* world, double at_once) {
  const schedule::Program& program = step.program;
  device.initialise(/*seed=*/0);  // pages that were never written cost less to read
  const int places = std::max(1, static_cast<int>(at_once) / step.mesh.tensor);
  const Rehearsal mine = Turns(step, device, input, world, places).run();
  device.clear_moments();

  plan::Costs costs = share(mine, program, device.place(), world);
  costs.reduces_in_turn = step.zero > 1;
  // All devices add up their squares at the same time, as far as there are cores for them.
  costs.norm *= std::max(1.0, static_cast<double>(program.devices) / places);
  if (world != nullptr) {
    if (device.peers() != nullptr) costs.edges = profile_links(program, *device.peers());
    costs.norm += profile_combine(*world, static_cast<int>(step.tensor_names.size()));
  }
  return costs;
}

}  // namespace cleave::runtime
