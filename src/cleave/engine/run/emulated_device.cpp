#include "cleave/engine/run/emulated_device.h"

#include <algorithm>
#include <array>
#include <string>
#include <utility>
#include <vector>

#include "cleave/base/check.h"
#include "cleave/engine/run/linked_moves.h"
#include "cleave/plan/memory/memory.h"

namespace cleave::engine {
namespace {

void multiply(plan::StageCosts& costs, double factor) {
  costs.forward *= factor;
  costs.input *= factor;
  costs.weight *= factor;
  costs.recompute *= factor;
}

/// A stage takes what its segments take.
void set_segments(plan::Costs& costs, const schedule::Program& program,
                  const std::vector<plan::StageCosts>& segments) {
  auto next = segments.begin();
  for (int s = 0; s < program.stages; ++s) {
    CLEAVE_CHECK(segments.end() - next >= program.segments[s], "a segment without its time");
    const auto first = std::exchange(next, next + program.segments[s]);
    costs.segments.emplace_back(first, next);
    costs.stages[s] = {};
    for (const plan::StageCosts& segment : costs.segments.back())
      costs.stages[s].add_passes(segment);
    costs.stages[s].recompute = costs.stages[s].forward;
  }
}

/// All that a stage takes, this many times.
void multiply_stage(plan::Costs& costs, int stage, double factor) {
  multiply(costs.stages[stage], factor);
  if (costs.segments.empty()) return;
  for (plan::StageCosts& segment : costs.segments[stage]) multiply(segment, factor);
}

double speed_of(const EmulatedTimes& times, int place) {
  return times.speed.empty() ? 1 : times.speed.at(place);
}

plan::Costs costs_at_speed_one(const schedule::Program& program, const EmulatedTimes& times) {
  plan::Costs costs = plan::uniform_costs(program, {.f = times.f, .i = times.i, .w = times.w});
  costs.unit = std::string(1, 's');  // g++ 12 warns falsely of an assigned literal
  for (plan::LinkCosts& link : costs.edges) link = {.latency = times.link, .credit = times.link};
  costs.outside.assign(program.devices, {.per_byte = times.outside_per_byte});
  if (!times.segments.empty()) set_segments(costs, program, times.segments);
  return costs;
}

Executor::Parts parts_of(const schedule::Program& program, int index, Arena& arena, Arena& outside,
                         const Peers& peers) {
  const std::vector<Stage*> none(program.stages, nullptr);
  const ShardFold fold{.microbatches = program.microbatches};
  LinkedProgram linked = link(program, index, {.stages = none, .peers = peers}, arena);
  link_moves(program, index, arena, outside, linked);
  return {.program = &program,
          .device = index,
          .linked = std::move(linked),
          .stages = none,
          .fold = fold,
          .arena = &arena,
          .outside = &outside,
          .peers = &peers};
}

double outside_per_byte(const plan::Costs& costs, int place) {
  return costs.outside.empty() ? 0 : costs.outside[place].per_byte;
}

Executor::Parts with(Executor::Parts parts, ops::Compute& compute, Emulator& emulator,
                     const EmulatedGroups& groups) {
  parts.compute = &compute;
  parts.emulator = &emulator;
  parts.world = &groups.world;
  parts.place = &groups.group;
  return parts;
}

}  // namespace

void plan_messages(schedule::Program& program) {
  plan::plan_memory(program, std::vector<plan::StageMemory>(program.stages));
}

plan::Costs emulated_costs(const schedule::Program& program, const EmulatedTimes& times) {
  plan::Costs costs = costs_at_speed_one(program, times);
  for (int s = 0; s < program.stages; ++s) {
    double slowest = speed_of(times, program.placement[s][0]);
    for (int place : program.placement[s]) slowest = std::min(slowest, speed_of(times, place));
    multiply_stage(costs, s, 1 / slowest);
  }
  return costs;
}

plan::Costs emulated_costs(const schedule::Program& program, const EmulatedTimes& times,
                           int place) {
  plan::Costs costs = costs_at_speed_one(program, times);
  for (int s = 0; s < program.stages; ++s) multiply_stage(costs, s, 1 / speed_of(times, place));
  return costs;
}

EmulatedDevice::EmulatedDevice(const schedule::Program& program, plan::Costs costs, int place,
                               const EmulatedGroups& groups, Emulator::Jitter jitter)
    : peers_(groups.peers),
      compute_(1),
      arena_(plan::peak_bytes(program)[place]),
      outside_memory_(outside_per_byte(costs, place)),
      outside_(plan::outside_bytes(program)[place], outside_memory_),
      emulator_(program, std::move(costs), place, peers_, groups.group, std::move(jitter)),
      executor_(
          with(parts_of(program, place, arena_, outside_, peers_), compute_, emulator_, groups)) {}

EmulatedDevice::EmulatedDevice(const schedule::Program& program, plan::Costs costs, int place,
                               comm::Communicator& world, Emulator::Jitter jitter)
    : EmulatedDevice(program, std::move(costs), place, world, std::move(jitter),
                     world.group(std::array{world.rank()})) {}

EmulatedDevice::EmulatedDevice(const schedule::Program& program, plan::Costs costs, int place,
                               comm::Communicator& world, Emulator::Jitter jitter,
                               std::unique_ptr<comm::Communicator> alone)
    : EmulatedDevice(program, std::move(costs), place,
                     EmulatedGroups{.world = world, .peers = Peers(world), .group = *alone},
                     std::move(jitter)) {
  alone_ = std::move(alone);
}

}  // namespace cleave::engine
