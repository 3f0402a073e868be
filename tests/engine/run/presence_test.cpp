// Microbatches without images leave the tower out: on every layout, in every step that data can
// bring, with the bits of a run in which the tower computes for nobody, in one plan of memory.

#include <array>
#include <chrono>
#include <cmath>
#include <mutex>
#include <thread>

#include "support/tiny_model.h"
#include <gtest/gtest.h>

#include "cleave/comm/local/local_world.h"
#include "cleave/engine/compile/compile.h"
#include "cleave/engine/run/device.h"
#include "cleave/spec/trainable.h"
#include "cleave/train/step/dealing.h"
#include "cleave/train/step/run_optimizer.h"

namespace cleave::engine {
namespace {

using testing::tiny_model;

constexpr int kAllMicrobatches = 8;  // of a step
constexpr int kGridShards = 4;
constexpr std::array kWithImages = {3, 0, 8, 5, 1, 6};  // of them, step by step

/// Texts with 0, 1 or 3 images: of the microbatches in the order in which they are dealt, the first
/// `with` have some.
class MixedSource : public train::RandomSource {
 public:
  MixedSource(const train::Dealing& dealing, int step, int with)
      : train::RandomSource(static_cast<std::uint64_t>(step), testing::kVocabulary),
        dealing_(dealing),
        with_(with) {}

  void load(int index, std::string_view input, View tensor) override {
    const auto number = static_cast<int>(dealing_.number_of(index));
    RandomSource::load(number, input, tensor);
    if (input != "places") return;
    const int rows = number >= with_ ? 0 : number % 2 == 0 ? 4 : 12;  // an image has four
    for (int t = 0; t < tensor.elements(); ++t) tensor.as<std::int32_t>()[t] = t < rows ? t : -1;
  }

 private:
  train::Dealing dealing_;
  int with_;
};

/// Every load takes from 1 us to 1 s, most of them little.
class LateSource : public MixedSource {
 public:
  LateSource(const train::Dealing& dealing, int step, int with, int device)
      : MixedSource(dealing, step, with), random_(static_cast<std::uint64_t>(device), "late") {}

  void load(int index, std::string_view input, View tensor) override {
    const double exponent = static_cast<double>(random_.below(6000, next_++)) / 1000;
    std::this_thread::sleep_for(std::chrono::microseconds(std::lround(std::pow(10, exponent))));
    MixedSource::load(index, input, tensor);
  }

 private:
  Philox random_;
  std::uint64_t next_ = 0;
};

std::vector<InputCount> counts() {
  return {{0, 1}, {1, 1}, {3, 1}, {5, 1}, {6, 1}, {8, 1}};
}

CompiledStep compiled(const Graph& graph, const Layout& layout, std::vector<InputCount> inputs) {
  return compile(graph, {.layout = layout,
                         .microbatches = kAllMicrobatches / layout.replicas(),
                         .data_shards = kGridShards,
                         .tensor_shards = layout.tensor > 1 ? 2 : 1,
                         .optional_inputs = std::move(inputs)});
}

train::Dealing dealing_of(const CompiledStep& step, int device) {
  return {.shards = kGridShards,
          .first_shard = step.replica_of(device) * step.fold.shards,
          .per_shard = step.fold.per_shard()};
}

struct Outcome {
  std::string weights;
  std::vector<double> losses;
  bool as_planned = true;  // bytes of memory, of the programs that have run
  bool sent_as_planned = true;
};

enum class Loads { AtOnce, Late };

Outcome train(const CompiledStep& step, std::size_t steps = kWithImages.size(),
              Loads loads = Loads::AtOnce) {
  const float scale = 1.0f / static_cast<float>(kAllMicrobatches * loss_count(step.model));
  std::mutex mutex;
  Outcome outcome;
  std::vector<std::pair<std::string, std::uint64_t>> hashes;
  comm::run_devices(step.devices(), [&](comm::Communicator& world) {
    const int index = world.rank();
    Device device(step, index, 1, world);
    device.initialise(7);
    train::RunOptimizer optimizer({.steps = 6, .lr = 1e-2, .warmup = 1});
    for (std::size_t s = 0; s < steps; ++s) {
      const int number = static_cast<int>(s);
      const train::Dealing dealing = dealing_of(step, index);
      MixedSource source(dealing, number, kWithImages[s]);
      LateSource late(dealing, number, kWithImages[s], index);
      const int pattern = step.pattern_of(kWithImages[s]);
      optimizer.begin_step(number);
      const comm::Sent before = world.sent();
      MixedSource* used = loads == Loads::Late ? &late : &source;
      const StepResult result = device.executor().run({.source = used,
                                                       .optimizer = &optimizer,
                                                       .loss_scale = scale,
                                                       .search = Search::NonFinite,
                                                       .pattern = pattern});
      const std::lock_guard lock(mutex);
      outcome.sent_as_planned =
          outcome.sent_as_planned && world.sent() - before == step.traffic_of(pattern)[index];
      outcome.as_planned = outcome.as_planned &&
                           device.arena().peak() == device.executor().planned_bytes() &&
                           device.arena().peak() <= step.planned_on(index);
      if (index == 0) outcome.losses.push_back(result.loss);
    }
    const std::lock_guard lock(mutex);
    if (!device.is_owner()) return;
    for (auto& hash : device.weight_hashes()) hashes.push_back(hash);
  });
  outcome.weights = combine_hashes(hashes);
  return outcome;
}

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

std::string name_of(const Layout& l) {
  return detail::concat(l.schedule, ", pipeline ", l.pipeline, ", data ", l.data, ", tensor ",
                        l.tensor, ", zero ", l.zero, ", placement ", static_cast<int>(l.placement),
                        ", data of the encoder ", l.encoder_data);
}

void expect_bits(const Graph& graph, const Outcome& expected, const std::vector<Layout>& all) {
  for (const Layout& layout : all) {
    SCOPED_TRACE(name_of(layout));
    const Outcome outcome = train(compiled(graph, layout, counts()));
    EXPECT_EQ(outcome.losses, expected.losses);
    EXPECT_EQ(outcome.weights, expected.weights);
    EXPECT_TRUE(outcome.as_planned);
    EXPECT_TRUE(outcome.sent_as_planned);
  }
}

TEST(Presence, ChangesNoBitInAnyLayout) {
  const Graph graph = tiny_model(&model::vlm, DType::F32);
  const Outcome everywhere = train(compiled(graph, {}, {}));
  const Outcome alone = train(compiled(graph, {}, counts()));

  EXPECT_EQ(alone.losses, everywhere.losses);
  EXPECT_EQ(alone.weights, everywhere.weights);
  expect_bits(graph, alone, layouts());
}

/// `encoder` replicas of one stage of the tower that feed `data` of two language stages, as
/// `others` says.
Layout unequal(int encoder, int data, Layout others = {}) {
  others.pipeline = 3;
  others.data = data;
  others.placement = Placement::Own;
  others.encoder_stages = 1;
  others.encoder_data = encoder;
  return others;
}

TEST(Presence, ChangesNoBitOfUnequalReplicas) {
  using schedule::Recompute;
  const Graph graph = tiny_model(&model::vlm, DType::F32);
  std::vector<Layout> all;
  for (const char* schedule : {"1f1b", "gpipe", "zb-h1", "auto"})
    for (const auto& [encoder, data] : {std::pair(4, 2), {4, 1}, {2, 1}, {1, 2}, {1, 4}, {2, 4}})
      all.push_back(unequal(encoder, data, {.schedule = schedule}));
  for (const int zero : {1, 2, 3}) {
    all.push_back(unequal(4, 2, {.zero = zero}));
    all.push_back(unequal(1, 2, {.schedule = "zb-h1", .zero = zero}));
    all.push_back(unequal(4, 1, {.zero = zero, .recompute = {Recompute::Full}}));
  }
  all.push_back(unequal(2, 4, {.recompute = {Recompute::Selective}}));
  all.push_back(unequal(2, 1, {.offload = schedule::Offload::Both}));
  all.push_back(unequal(4, 2, {.tensor = 1}));
  all.back().pipeline = 4;
  all.back().encoder_stages = 2;
  expect_bits(graph, train(compiled(graph, {}, counts())), all);
}

TEST(Presence, ChangesNoBitOfUnequalReplicasWithTensorShards) {
  const Graph graph = tiny_model(&model::vlm, DType::F32);
  const std::vector<Layout> all = {{.tensor = 2},
                                   unequal(2, 1, {.tensor = 2}),
                                   unequal(1, 4, {.tensor = 2}),
                                   unequal(4, 1, {.tensor = 2, .sequence_parallel = true})};
  expect_bits(graph, train(compiled(graph, all[0], {})), all);
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
}  // namespace cleave::engine
