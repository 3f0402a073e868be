// A loss over all samples of a step, in every cut of the step into microbatches and replicas.

#include <gtest/gtest.h>

#include "cleave/base/check.h"
#include "cleave/base/philox.h"
#include "cleave/comm/launcher.h"
#include "cleave/engine/compile/compile.h"
#include "cleave/engine/run/device.h"
#include "cleave/schedule/effects.h"
#include "cleave/schedule/text.h"
#include "cleave/schedule/verifier.h"
#include "cleave/spec/contrastive_layers.h"
#include "cleave/train/step/run_optimizer.h"

namespace cleave::engine {
namespace {

constexpr std::int64_t kSamples = 64;
constexpr std::int64_t kRowWidth = 24;
constexpr std::int64_t kFeatures = 8;

/// Rows of data become the features of both sides of a pair, through three segments.
Graph pairs(std::int64_t rows, std::int64_t samples = kSamples) {
  const spec::Flow flow{.sequences = rows};
  const auto linear = [&](const char* name, std::int64_t in, std::int64_t out) {
    return spec::linear(name, flow, {.in = in, .out = out, .bias = Bias::Add, .deviation = 0.3f});
  };
  Graph graph;
  graph.inputs = {{"rows", {"rows", DType::F32, {rows, kRowWidth}}}};
  graph.segments = {
      {.name = "one", .layers = {linear("a", kRowWidth, kRowWidth)}},
      {.name = "two", .layers = {linear("b", kRowWidth, kRowWidth)}, .block = true},
      {.name = "three", .layers = {linear("c", kRowWidth, 2 * kFeatures)}, .block = true},
      {.name = "loss",
       .layers = {spec::contrastive_loss(
           "loss", flow,
           {.features = kFeatures, .samples = samples, .scale_name = "logit_scale"})}}};
  graph.edges = {{{Graph::kData, "rows"}, {0, "x"}}};
  join_in_order(graph);
  graph.results = {{"losses", {3, "y"}}};
  return graph;
}

/// Sample i of the step has the same values in every cut.
class RowsOfStep : public MicrobatchSource {
 public:
  RowsOfStep(std::int64_t first, std::int64_t rows) : first_(first), rows_(rows) {}
  void load(int index, std::string_view, View tensor) override {
    const Philox random(3, "rows of step");
    const std::int64_t before = (first_ + index * rows_) * kRowWidth;
    for (std::int64_t i = 0; i < tensor.elements(); ++i)
      tensor.as<float>()[i] = random.normal(static_cast<std::uint64_t>(before + i));
  }

 private:
  std::int64_t first_;
  std::int64_t rows_;
};

struct Cut {
  std::int64_t rows = kSamples;
  int pipeline = 1;
  int data = 1;
  int shards = 1;
  int zero = 0;
  std::vector<schedule::Recompute> recompute = {};
};

struct StepOf {
  double first = 0;  ///< loss of the first step
  double loss = 0;   ///< of the last
  double norm = 0;
  std::string weights;
  double evaluated = 0;
  std::vector<std::int64_t> planned, measured;
};

CompileOptions options_of(const Cut& cut) {
  CompileOptions options;
  options.layout = {.pipeline = cut.pipeline,
                    .data = cut.data,
                    .schedule = "gpipe",
                    .zero = cut.zero,
                    .recompute = cut.recompute};
  options.microbatches = static_cast<int>(kSamples / cut.rows / cut.data);
  options.data_shards = cut.shards;
  return options;
}

/// Two steps of AdamW, and what an evaluation of the same samples says after them.
StepOf two_steps(const Cut& cut) {
  const CompileOptions options = options_of(cut);
  const CompiledStep step = compile(pairs(cut.rows), options);
  StepOf result;
  result.planned = step.planned_bytes;
  result.measured.resize(step.planned_bytes.size());
  std::vector<std::vector<std::pair<std::string, std::uint64_t>>> hashes(step.devices());
  comm::LocalLauncher launcher;
  const auto work = [&](comm::Communicator& world) {
    const int index = world.rank();
    Device device(step, index, 1, world);
    device.initialise(5);
    const std::int64_t share = kSamples / cut.data;
    RowsOfStep source(step.replica_of(index) * share, cut.rows);
    device.clear_slots();
    train::RunOptimizer optimizer({.steps = 2, .lr = 1e-2, .warmup = 0});
    StepResult last;
    double first = 0;
    for (int s = 0; s < 2; ++s) {
      optimizer.begin_step(s);
      last = device.executor().run(
          {.source = &source, .optimizer = &optimizer, .loss_scale = 1.0f / kSamples});
      if (s == 0) first = last.loss;
    }
    std::vector<MicrobatchSums> sums(static_cast<std::size_t>(options.microbatches * cut.data));
    device.executor().evaluate(source, sums);
    result.measured[static_cast<std::size_t>(index)] = device.arena().peak();
    if (device.is_owner()) hashes[static_cast<std::size_t>(index)] = device.weight_hashes();
    if (index != 0) return;
    result.first = first;
    result.loss = last.loss;
    result.norm = last.gradient_norm;
    for (const MicrobatchSums& sum : sums) result.evaluated += sum.loss;
  };
  launcher.run(step.devices(), 1, work, {});
  std::vector<std::pair<std::string, std::uint64_t>> all;
  for (const auto& own : hashes) all.insert(all.end(), own.begin(), own.end());
  result.weights = combine_hashes(all);
  return result;
}

TEST(Collect, GivesOneLossForEveryCutOfTheStep) {
  const StepOf whole = two_steps({.rows = 64});
  EXPECT_GT(whole.loss, 3);  // of log(64) = 4.16
  for (const Cut& cut :
       {Cut{.rows = 8}, Cut{.rows = 4, .data = 4, .shards = 4}, Cut{.rows = 4, .pipeline = 2},
        Cut{.rows = 16, .data = 2, .shards = 2}, Cut{.rows = 1, .pipeline = 4}}) {
    const StepOf step = two_steps(cut);
    // The first step is of the same weights; afterwards they differ by roundings.
    EXPECT_EQ(step.first, whole.first) << cut.rows << " x " << cut.data;
    EXPECT_NEAR(step.loss, whole.loss, 1e-5 * whole.loss);
    EXPECT_NEAR(step.evaluated, whole.evaluated, 1e-5 * whole.evaluated);
    // Sums of weight gradients go by the grid.
    EXPECT_NEAR(step.norm, whole.norm, 1e-5 * whole.norm);
    EXPECT_EQ(step.planned, step.measured);
  }
}

TEST(Collect, GivesTheSameWeightsInTheLayoutsOfOneGrid) {
  const StepOf expected = two_steps({.rows = 4, .data = 1, .shards = 4});
  for (const Cut& cut :
       {Cut{.rows = 4, .data = 2, .shards = 4}, Cut{.rows = 4, .data = 4, .shards = 4},
        Cut{.rows = 4, .pipeline = 2, .data = 2, .shards = 4},
        Cut{.rows = 4, .pipeline = 4, .data = 1, .shards = 4},
        Cut{.rows = 4, .data = 4, .shards = 4, .zero = 1},
        Cut{.rows = 4, .data = 2, .shards = 4, .zero = 2},
        Cut{.rows = 4, .pipeline = 2, .data = 2, .shards = 4, .zero = 3},
        Cut{.rows = 4, .data = 2, .shards = 4, .recompute = {schedule::Recompute::Full}}}) {
    const StepOf step = two_steps(cut);
    EXPECT_EQ(step.loss, expected.loss);
    EXPECT_EQ(step.weights, expected.weights)
        << cut.pipeline << " x " << cut.data << " zero " << cut.zero;
    EXPECT_EQ(step.evaluated, expected.evaluated);
    EXPECT_EQ(step.planned, step.measured);
  }
}

TEST(Collect, IsRefusedBySchedulesThatTurnBackBeforeTheLastForward) {
  CompileOptions options = options_of({.rows = 8, .pipeline = 2});
  options.layout.partition = {1, 1};  // the loss is segment 1 of stage 1
  options.layout.schedule = "1f1b";
  try {
    compile(pairs(8), options);
    FAIL() << "1f1b was taken";
  } catch (const UserError& error) {
    EXPECT_EQ(std::string(error.what()),
              "schedule 1f1b runs 1.1B0 before 1.0F1, but the loss is over all samples of a step; "
              "take schedule gpipe or auto");
  }
  options.layout.schedule = "auto";
  EXPECT_EQ(compile(pairs(8), options).program.collecting, std::vector<int>{1});
}

TEST(Collect, IsRefusedForAnotherNumberOfSamples) {
  EXPECT_THROW(compile(pairs(8, 32), options_of({.rows = 8})), UserError);
}

TEST(Collect, IsWrittenAndReadInTheTextForm) {
  CompileOptions options = options_of({.rows = 16, .pipeline = 2, .data = 2, .shards = 2});
  options.layout.partition = {1, 1};
  const CompiledStep step = compile(pairs(16), options);
  const std::string text = schedule::to_text(step.program);
  EXPECT_NE(text.find("collects 1\n"), std::string::npos);
  EXPECT_NE(text.find(" WAIT:COLLECT:1.1"), std::string::npos);
  EXPECT_EQ(schedule::parse_program(text), step.program);
}

/// What the verifier says first of a program that was changed.
std::string fault_of(schedule::Program program, const auto& change) {
  for (auto& list : program.lists) change(list);
  const auto faults = schedule::verify(program);
  return faults.empty() ? "" : faults[0].reason;
}

TEST(Collect, IsDemandedOnceBetweenWhatItReadsAndWhatReadsIt) {
  using schedule::Instruction;
  using schedule::Op;
  CompileOptions options = options_of({.rows = 8, .pipeline = 2});
  options.layout.partition = {1, 1};
  schedule::Program program = compile(pairs(8), options).program;
  program.buffers.clear();
  const auto is_collect = [](const Instruction& i) { return subject(i) == Op::Collect; };

  EXPECT_EQ(fault_of(program, [](auto&) {}), "");
  EXPECT_EQ(fault_of(program, [&](auto& list) { std::erase_if(list, is_collect); }),
            "the COLLECT of stage 1 is missing");
  EXPECT_EQ(fault_of(program,
                     [&](auto& list) {
                       const auto at = std::ranges::find_if(list, is_collect);
                       if (at != list.end()) std::rotate(list.begin() + 6, at, at + 2);
                     })
                .substr(0, 27),
            "collects before instruction");
  EXPECT_EQ(fault_of(program,
                     [&](auto& list) {
                       const auto at = std::ranges::find_if(list, is_collect);
                       if (at != list.end()) std::rotate(at + 1, at + 2, at + 3);
                     }),
            "runs before what the step has collected is there");
}

}  // namespace
}  // namespace cleave::engine
