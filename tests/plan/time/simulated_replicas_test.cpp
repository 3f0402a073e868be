// What replicas exchange goes on while they compute, until somebody waits for it.

#include "plan/time/spans.h"
#include <gtest/gtest.h>

#include "cleave/plan/time/simulator.h"

namespace cleave::plan {
namespace {

using schedule::Instruction;
using schedule::Op;
using schedule::Program;
using testing::find;

// Two replicas of one stage of two segments; lists to be filled in.
Program pair_of_replicas() {
  Program program;
  program.stages = 1;
  program.devices = program.replicas = 2;
  program.microbatches = 1;
  program.placement = {{0, 1}};
  program.segments = {2};
  program.lists.resize(2);
  return program;
}

Instruction of_segment(Op op, int segment) {
  return {
      .op = op, .stage = 0, .segment = segment, .microbatch = schedule::is_compute(op) ? 0 : -1};
}

Instruction wait_for(Op op, int segment) {
  return {.op = Op::Wait, .completes = op, .stage = 0, .segment = segment};
}

TEST(SimulatedReplicas, ReduceGoesOnWhileOthersComputeUntilItsWait) {
  Program program = pair_of_replicas();
  const Instruction norm{.op = Op::Norm};
  for (auto& list : program.lists)
    list = {of_segment(Op::BackwardWeight, 1),
            of_segment(Op::Reduce, 1),
            of_segment(Op::BackwardWeight, 0),
            of_segment(Op::Reduce, 0),
            wait_for(Op::Reduce, 1),
            wait_for(Op::Reduce, 0),
            norm};
  // Each segment: W takes 2, REDUCE takes 5 of which 1 is the device's own.
  Costs costs{.stages = {{.weight = 4, .reduce = 10, .reduce_work = 2}}};
  costs.norm = 1;

  const Trace trace = simulate(program, costs);

  // The second W of device 1 also does the own work of the first REDUCE. The second REDUCE begins
  // behind it, has nothing left to hide behind and ends at 10.
  EXPECT_DOUBLE_EQ(find(trace, 1, SpanKind::Compute, program.lists[1][2]).begin, 2);
  EXPECT_DOUBLE_EQ(find(trace, 1, SpanKind::Compute, program.lists[1][2]).end, 5);
  EXPECT_DOUBLE_EQ(summarise(program, trace).makespan, 11);
  for (auto& list : program.lists) std::swap(list[3], list[4]);  // one after the other
  EXPECT_DOUBLE_EQ(summarise(program, simulate(program, costs)).makespan, 7 + 5 + 1);
}

TEST(SimulatedReplicas, APassWaitsForTheGatherOfItsSegmentOnly) {
  Program program = pair_of_replicas();
  const std::vector<Instruction> list = {of_segment(Op::Gather, 0), of_segment(Op::Gather, 1),
                                         wait_for(Op::Gather, 0),   of_segment(Op::Forward, 0),
                                         wait_for(Op::Gather, 1),   of_segment(Op::Forward, 1)};
  program.lists = {list, list};
  program.lists[1].insert(program.lists[1].begin() + 1, of_segment(Op::BackwardWeight, 1));
  const Costs costs{.stages = {{.forward = 8, .weight = 6, .gather = 4}}};

  const Trace trace = simulate(program, costs);

  // Each GATHER takes 2. Device 1 posts the second one after its W of 3, while device 0 computes.
  EXPECT_DOUBLE_EQ(find(trace, 0, SpanKind::Compute, list[3]).begin, 2);
  EXPECT_DOUBLE_EQ(find(trace, 0, SpanKind::Compute, list[5]).begin, 6);
  EXPECT_DOUBLE_EQ(find(trace, 1, SpanKind::Compute, list[3]).begin, 3);
  EXPECT_DOUBLE_EQ(find(trace, 1, SpanKind::Compute, list[5]).begin, 7);
}

TEST(SimulatedReplicas, RefreshWhatTheyHaveUpdated) {
  Program program = pair_of_replicas();
  const std::vector<Instruction> list = {
      {.op = Op::Step}, {.op = Op::Refresh, .stage = 0}, wait_for(Op::Refresh, -1)};
  program.lists = {list, list};
  const Costs costs{.stages = {{.gather = 4}}, .steps = {1, 3}};

  EXPECT_DOUBLE_EQ(summarise(program, simulate(program, costs)).makespan, 7);
}

}  // namespace
}  // namespace cleave::plan
