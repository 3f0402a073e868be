// Microbatches without images leave the tower out: on every layout, in every step that data can
// bring, with the bits of a run in which the tower computes for nobody, in one plan of memory.

#include <algorithm>

#include "engine/run/presence_run.h"

namespace cleave::engine::presence {
namespace {

std::vector<Layout> layouts() {
  using schedule::Recompute;
  std::vector<Layout> all = {
      {.pipeline = 2},
      {.pipeline = 3, .schedule = "zb-h1"},
      {.data = 2},
      {.data = 4},
      {.pipeline = 2, .data = 2},
      {.pipeline = 2, .data = 4, .zero = 1},
      {.data = 2, .zero = 2},
      {.data = 4, .zero = 3},
      {.pipeline = 2, .data = 2, .zero = 2},
      {.pipeline = 2, .data = 2, .zero = 3},
      {.pipeline = 2, .data = 2, .schedule = "zb-h1", .zero = 2},
      {.pipeline = 2, .data = 4, .schedule = "gpipe", .zero = 3},
      {.recompute = {Recompute::Full}},
      {.pipeline = 2, .data = 2, .zero = 3, .recompute = {Recompute::Full}},
      {.pipeline = 2, .schedule = "zb-h1", .recompute = {Recompute::Selective}},
      {.pipeline = 2, .offload = schedule::Offload::Activations},
      {.pipeline = 2, .schedule = "zbv"},
      {.pipeline = 2, .chunks = 2, .schedule = "interleaved", .placement = Placement::Shared},
      {.pipeline = 2, .chunks = 2, .schedule = "auto", .placement = Placement::Shared},
  };
  for (const char* schedule : {"1f1b", "gpipe", "zb-h1", "auto"}) {
    all.push_back({.pipeline = 3, .schedule = schedule, .placement = Placement::First});
    all.push_back({.pipeline = 3,
                   .data = 2,
                   .schedule = schedule,
                   .placement = Placement::Own,
                   .encoder_stages = 1});
    all.push_back(
        {.pipeline = 4, .schedule = schedule, .placement = Placement::Own, .encoder_stages = 2});
  }
  return all;
}

TEST(Presence, ChangesNoBitInAnyLayout) {
  const Graph graph = tiny_model(&model::vlm, DType::F32);
  const Outcome everywhere = train(compiled(graph, {}, {}));
  const Outcome alone = train(compiled(graph, {}, counts()));

  EXPECT_EQ(alone.losses, everywhere.losses);
  EXPECT_EQ(alone.weights, everywhere.weights);
  expect_bits(graph, alone, layouts());
}

TEST(Presence, ChangesNoBitOfTensorShards) {
  const Graph graph = tiny_model(&model::vlm, DType::F32);
  std::vector<Layout> all;
  for (const bool rows : {false, true})
    for (const int data : {1, 2})
      all.push_back({.data = data, .tensor = 2, .sequence_parallel = rows, .zero = data - 1});
  all.push_back({.pipeline = 2,
                 .tensor = 2,
                 .sequence_parallel = true,
                 .placement = Placement::Own,
                 .encoder_stages = 1});
  expect_bits(graph, train(compiled(graph, all[0], {})), all);
}

// The tower feeds several language layers, on stages of their own, and may be absent from each.
TEST(Presence, ChangesNoBitWhereSeveralLayersReadTheTower) {
  using schedule::Recompute;
  const Graph graph = testing::tiny_deepstack(DType::F32);
  expect_bits(
      graph, train(compiled(graph, {}, {})),
      {{},
       {.pipeline = 3},
       {.pipeline = 3, .data = 2, .placement = Placement::Own, .encoder_stages = 1},
       {.pipeline = 2, .data = 2, .schedule = "zb-h1", .zero = 3},
       {.pipeline = 2, .data = 4, .schedule = "gpipe", .zero = 2},
       {.pipeline = 2, .data = 2, .zero = 3, .recompute = {Recompute::Full}},
       {.pipeline = 2, .schedule = "zb-h1", .recompute = {Recompute::Selective}},
       {.pipeline = 2, .offload = schedule::Offload::Activations},
       {.pipeline = 4, .schedule = "auto", .placement = Placement::Own, .encoder_stages = 2},
       {.pipeline = 3, .schedule = "1f1b", .placement = Placement::First}});
}

TEST(Presence, ChangesNoBitOfFrozenTowers) {
  for (const auto& trained : {std::vector<std::string>{"language"}, {"projector"}, {"vision"}}) {
    SCOPED_TRACE(trained[0]);
    Graph graph = tiny_model(&model::vlm, DType::F32);
    train_only(graph.segments, trained);
    expect_bits(graph, train(compiled(graph, {}, {})),
                {{},
                 {.pipeline = 3, .data = 2, .placement = Placement::Own, .encoder_stages = 1},
                 unequal(4, 2, {.zero = 1}),
                 unequal(1, 2, {.schedule = "zb-h1"}),
                 {.pipeline = 2, .data = 2, .schedule = "zb-h1", .zero = 3},
                 {.pipeline = 3, .schedule = "auto", .placement = Placement::First}});
  }
}

// Replicas that wait for each other while some take part in what others do not.
TEST(Presence, NeverHangsHoweverLateDataCome) {
  const Graph graph = tiny_model(&model::vlm, DType::F32);
  const std::size_t steps = 2;
  const Outcome alone = train(compiled(graph, {}, counts()), steps);
  for (const Layout& layout :
       {Layout{.pipeline = 2, .data = 2, .zero = 3},
        Layout{.pipeline = 3, .placement = Placement::Own, .encoder_stages = 1},
        unequal(4, 2, {.zero = 3})}) {
    const Outcome late = train(compiled(graph, layout, counts()), steps, Loads::Late);
    EXPECT_EQ(late.weights, alone.weights) << name_of(layout);
  }
}

TEST(Presence, RunsTheTowerWhereThereAreImagesAndNowhereElse) {
  const Graph graph = tiny_model(&model::vlm, DType::F32);
  const CompiledStep step =
      compiled(graph, {.pipeline = 3, .data = 2, .placement = Placement::Own, .encoder_stages = 1},
               counts());
  for (const int with : kWithImages) {
    const schedule::Program& program = step.program_of(step.pattern_of(with));
    int forwards = 0;
    for (const int tower : program.placement[0]) {
      for (const schedule::Instruction& i : program.lists[tower])
        forwards += i.op == schedule::Op::Forward && i.segment == 0;
    }
    EXPECT_EQ(forwards, with);
  }
}

TEST(Presence, KeepsWhatLastsInOnePlace) {
  using schedule::BufferKind;
  const Graph graph = tiny_model(&model::vlm, DType::F32);
  const CompiledStep step = compiled(graph, {.pipeline = 2, .data = 2, .zero = 2}, counts());
  const auto lasting = [](const schedule::Program& program) {
    std::vector<std::array<std::int64_t, 5>> places;
    for (const schedule::Buffer& b : program.buffers)
      if (b.kind <= BufferKind::Optimizer || b.kind == BufferKind::Sums ||
          b.kind == BufferKind::Share)
        places.push_back({static_cast<int>(b.kind), b.device, b.stage, b.segment, b.offset});
    return places;
  };
  ASSERT_EQ(step.patterns.size() + 1, step.input_counts.size());
  for (const StepPattern& pattern : step.patterns)
    EXPECT_EQ(lasting(pattern.program), lasting(step.program));
}

// What is evaluated, too: microbatch by microbatch the sums of a pass with the tower everywhere.
TEST(Presence, ChangesNoBitOfEvaluations) {
  const Graph graph = tiny_model(&model::vlm, DType::F32);
  CompileOptions options{.layout = {.pipeline = 2, .data = 2},
                         .microbatches = 4,
                         .optional_inputs = counts(),
                         .evaluated_inputs = {.with = 11, .microbatches = 20}};
  const CompiledStep step = compile(graph, options);
  const int of_pass = 2 * step.evaluation.microbatches;
  EXPECT_EQ(step.evaluated_counts, (std::vector<int>{0, 11 % of_pass}));
  comm::run_devices(step.devices(), [&](comm::Communicator& world) {
    Device device(step, world.rank(), 1, world);
    device.initialise(7);
    for (const int with : step.evaluated_counts) {
      const train::Dealing blocks{
          .shards = 1,
          .first_shard = step.replica_of(world.rank()) * step.evaluation.microbatches,
          .per_shard = 1000};
      MixedSource source(blocks, 3, with);
      std::vector<MicrobatchSums> everywhere(of_pass);
      std::vector<MicrobatchSums> left_out(of_pass);
      device.executor().evaluate(source, everywhere);
      device.executor().evaluate(source, left_out, step.evaluation_of(with));
      for (int m = 0; m < of_pass; ++m) EXPECT_EQ(left_out[m].loss, everywhere[m].loss) << m;
    }
  });
}

}  // namespace
}  // namespace cleave::engine::presence
