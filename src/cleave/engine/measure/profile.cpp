#include "cleave/engine/measure/profile.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>
#include <vector>

#include "cleave/engine/measure/link_profile.h"

namespace cleave::engine {
namespace {

// These are measured for every stage.
constexpr std::array kStageCosts = {
    &plan::StageCosts::forward,   &plan::StageCosts::input,       &plan::StageCosts::weight,
    &plan::StageCosts::recompute, &plan::StageCosts::gather,      &plan::StageCosts::gather_work,
    &plan::StageCosts::reduce,    &plan::StageCosts::reduce_work, &plan::StageCosts::collect,
};

// These are told of every link.
constexpr std::array kLinkCosts = {&plan::LinkCosts::latency, &plan::LinkCosts::per_byte,
                                   &plan::LinkCosts::credit, &plan::LinkCosts::burst,
                                   &plan::LinkCosts::shared_per_byte};

// Enough of a step to see its caches at work, and long enough to even out disturbances.
constexpr int kMicrobatches = 3;
constexpr int kRounds = 2;
constexpr double kShareOfRun = 0.2, kShortest = 0.2, kLongest = 1;  // seconds

/// All devices rehearse, those of `at_once` places at the same time. The devices at a place need
/// each other, so they agree on how often.
class Turns {
 public:
  Turns(const schedule::Program& program, Device& device, const StepInput& input,
        comm::Communicator& world)
      : program_(program), device_(device), input_(input), world_(world), rehearsal_(program) {}

  /// What devices do by themselves, so many at once.
  void compute(int at_once, std::int64_t steps) {
    const int rounds = rounds_for(touch_memory(), steps);
    for (int first = 0; first < program_.devices; first += at_once) {
      const bool turn = device_.place() >= first && device_.place() < first + at_once;
      meet();
      if (turn) rehearse_steps(rounds);
      for (int i = 0; i <= kRounds; ++i) {
        meet();
        if (turn) device_.executor().rehearse_update(input_, rehearsal_);
      }
    }
  }

  /// What they do together, and all that was measured.
  Rehearsal exchange() && {
    for (int i = 0; i <= kRounds; ++i) {
      meet();
      device_.executor().rehearse_exchanges(rehearsal_);
    }
    return std::move(rehearsal_);
  }

 private:
  void meet() { world_.barrier().wait(); }

  /// As many microbatches and updates as in steps: an update drives the caches' content out.
  void rehearse_steps(int rounds) {
    const int of_a_step = (program_.microbatches + kMicrobatches - 1) / kMicrobatches;
    Rehearsal ignored(program_);
    for (int i = 1; i <= rounds; ++i) {
      device_.executor().rehearse_passes(input_, kMicrobatches, rehearsal_);
      if (i % of_a_step == 0) device_.executor().rehearse_update(input_, ignored);
    }
  }

  /// [place] -> seconds for a round.
  std::vector<double> touch_memory() {
    Rehearsal first(program_);
    std::vector<double> seconds(program_.devices);
    seconds[device_.place()] = device_.executor().rehearse_passes(input_, kMicrobatches, first);
    device_.executor().rehearse_update(input_, first);
    device_.executor().rehearse_exchanges(first);
    world_.combine(seconds, comm::Combine::Max);
    return seconds;
  }

  /// As many as it takes to be at work for as long as the slowest place.
  int rounds_for(const std::vector<double>& seconds, std::int64_t steps) const {
    const double slowest = *std::ranges::max_element(seconds);
    const double run = slowest / kMicrobatches * program_.microbatches * static_cast<double>(steps);
    const double longest =
        std::max(std::clamp(kShareOfRun * run, kShortest, kLongest), kRounds * slowest);
    return static_cast<int>(
        std::clamp(std::ceil(longest / std::max(1e-6, seconds[device_.place()])), 2.0, 1e4));
  }

  const schedule::Program& program_;
  Device& device_;
  const StepInput& input_;
  comm::Communicator& world_;
  Rehearsal rehearsal_;
};

/// The costs of all devices from what each has measured: [norm, STEP of every device, its moves,
/// every TIE, everything of every stage]. Replicas of a stage may differ: the slowest counts. The
/// devices at a place wait for each other now in this pass, now in that, so that the longest of
/// each would add up to more than all of them: one speaks for the place.
plan::Costs share(const Rehearsal& mine, double quantile, const CompiledStep& step, int place,
                  comm::Communicator& world) {
  const schedule::Program& program = step.program;
  std::vector<double> numbers = {mine.norm.quantile(quantile)};
  for (int d = 0; d < program.devices; ++d)
    numbers.push_back(d == place ? mine.step.quantile(quantile) : 0);
  for (int d = 0; d < program.devices; ++d)
    numbers.push_back(d == place ? mine.outside.quantile(quantile) : 0);
  for (const Samples& tie : mine.ties) numbers.push_back(tie.quantile(quantile));
  for (int s = 0; s < program.stages; ++s) {
    const plan::StageCosts costs = mine.costs(s, quantile);
    for (const auto cost : kStageCosts) numbers.push_back(costs.*cost);
  }
  if (step.mesh.number_of(world.rank()) > 0) std::ranges::fill(numbers, 0.0);
  world.combine(numbers, comm::Combine::Max);

  plan::Costs costs;
  auto at = numbers.begin();
  costs.norm = *at++;
  costs.steps.assign(at, at + program.devices);
  at += program.devices;
  for (int d = 0; d < program.devices; ++d) costs.outside.push_back({.per_byte = *at++});
  costs.ties.assign(at, at + std::ssize(program.ties));
  at += std::ssize(program.ties);
  costs.stages.resize(program.stages);
  for (plan::StageCosts& stage : costs.stages)
    for (const auto cost : kStageCosts) stage.*cost = *at++;
  return costs;
}

/// The devices of a number measure the links between their places, all numbers at the same time.
/// Where places differ in size, number 0 does, which all have, for everybody.
std::vector<plan::LinkCosts> links_of(const CompiledStep& step, comm::Communicator& world) {
  const int number = step.mesh.number_of(world.rank());
  const std::vector<int> peers = step.mesh.peers_of(number);
  if (std::ssize(peers) == world.size() && std::ranges::is_sorted(peers))
    return profile_links(step.program, world);
  if (step.mesh.degrees.empty()) return profile_links(step.program, *world.group(peers));
  std::vector<plan::LinkCosts> links(step.program.edges.size());
  if (number == 0) links = profile_links(step.program, *world.group(peers));
  std::vector<double> numbers;
  for (const plan::LinkCosts& link : links)
    for (const auto cost : kLinkCosts) numbers.push_back(link.*cost);
  world.combine(numbers, comm::Combine::Max);
  auto at = numbers.begin();
  for (plan::LinkCosts& link : links)
    for (const auto cost : kLinkCosts) link.*cost = *at++;
  return links;
}

}  // namespace

Profile profile(const CompiledStep& step, Device& device, const StepInput& input,
                comm::Communicator& world, const ProfileOptions& options) {
  const schedule::Program& program = step.program;
  device.fill_roughly();  // pages that were never written cost less to read
  const int places = std::max(1, static_cast<int>(options.at_once / step.mesh.devices_per_place()));
  // Devices that take turns on cores do so here too, with what the others leave in the caches.
  // Those of a tensor group would take each other's turns for their own time.
  const bool turns = world.give_way() && step.mesh.most_at_a_place() == 1;
  Turns rehearsal(program, device, input, world);
  rehearsal.compute(turns ? program.devices : places, options.steps);
  // Connections that were idle are slow at first. In a step messages come before sums.
  const std::vector<plan::LinkCosts> links = links_of(step, world);
  const Rehearsal mine = std::move(rehearsal).exchange();
  device.clear_slots();

  const double combine = profile_combine(world, static_cast<int>(step.tensor_names.size()));
  const auto costs_at = [&](double quantile) {
    plan::Costs costs = share(mine, quantile, step, device.place(), world);
    // All devices add up their squares at the same time, as far as there are cores for them.
    costs.norm *= std::max(1.0, static_cast<double>(program.devices) / places);
    costs.norm += combine;
    costs.edges = links;
    return costs;
  };
  Profile profile{.costs = costs_at(0.5)};
  profile.quick = costs_at(0.25);
  profile.slow = costs_at(0.75);
  // Within a machine what it takes is work of those who come last.
  if (world.sends_credits()) {
    profile.norm_way = combine;
    if (combine >= kLongLatency && world.size() == program.devices)
      profile.norm_rounds = profile_rounds(world);
  }
  for (int s = 0; s < program.stages; ++s) {
    std::vector<plan::StageCosts>& segments = profile.segments.emplace_back();
    for (int k = 0; k < std::ssize(step.stages[s]); ++k)
      segments.push_back(mine.costs_of_segment(StageId{s}, SegmentId{k}, 0.5));
  }
  return profile;
}

}  // namespace cleave::engine
