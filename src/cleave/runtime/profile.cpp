#include "cleave/runtime/profile.h"

#include <algorithm>
#include <vector>

#include "cleave/runtime/link_profile.h"

namespace cleave::runtime {
namespace {

// What the devices tell each other: [norm, then STEP of every device, then F, I, W, R of every
// stage].
constexpr int kPasses = 4;

/// Every device rehearses once, `at_once` of them at the same time.
Rehearsal rehearse_in_turn(Device& device, const StepInput& input, comm::Communicator* world,
                           int group) {
  if (world == nullptr) return device.executor().rehearse(input);
  Rehearsal mine;
  for (int first = 0; first < world->size(); first += group) {
    world->barrier().wait();
    if (world->rank() >= first && world->rank() < first + group)
      mine = device.executor().rehearse(input);
  }
  return mine;
}

std::vector<double> share(const Rehearsal& mine, const schedule::Program& program, int device,
                          comm::Communicator* world) {
  std::vector<double> numbers(1 + program.devices + kPasses * program.stages);
  numbers[0] = mine.norm;
  numbers[1 + device] = mine.step;
  for (int s = 0; s < program.stages; ++s) {
    double* passes = &numbers[1 + program.devices + kPasses * s];
    passes[0] = mine.stages[s].forward;
    passes[1] = mine.stages[s].input;
    passes[2] = mine.stages[s].weight;
    passes[3] = mine.stages[s].recompute;
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
  // The devices at a place need each other.
  const int places = std::max(1, static_cast<int>(at_once) / step.tensor);
  const std::vector<double> numbers = share(
      rehearse_in_turn(device, input, world, places * step.tensor), program, device.place(), world);
  device.clear_moments();

  plan::Costs costs;
  costs.norm = numbers[0];
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
