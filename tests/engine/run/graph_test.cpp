// A user's own graph, no chain: branches that join, and a skip over several stages. One seed, many
// layouts: every weight has the same bits, and every device uses exactly the bytes that were
// planned for it.

#include <cmath>

#include "engine/run/train_layout.h"
#include "support/errors.h"
#include <gtest/gtest.h>

#include "cleave/schedule/text.h"
#include "cleave/schedule/verifier.h"
#include "cleave/spec/layers.h"
#include "cleave/spec/port_layers.h"
#include "cleave/spec/trainable.h"

namespace cleave::engine {
namespace {

constexpr std::int64_t kWidth = 16;

SegmentSpec dense(const std::string& name, const spec::Flow& flow, std::int64_t in = kWidth) {
  return {name,
          {spec::linear(name + ".w", flow,
                        {.in = in, .out = kWidth, .bias = Bias::Add, .deviation = 0.3f}),
           spec::gelu(name + ".act", flow, kWidth)},
          true};
}

/// Cut into two shards: features by columns, then by rows, with a residual around both.
SegmentSpec divided(const std::string& name, const spec::Flow& flow) {
  const CutSpan span{.units = 2 * kWidth};
  return {name,
          {spec::layernorm(name + ".norm", flow, kWidth, 1e-5f),
           spec::linear(name + ".up", flow,
                        {.in = kWidth,
                         .out = 2 * kWidth,
                         .bias = Bias::Add,
                         .rule = CutRule::Column,
                         .spans = {span}}),
           spec::gelu(name + ".act", flow, 2 * kWidth),
           spec::linear(name + ".down", flow,
                        {.in = 2 * kWidth,
                         .out = kWidth,
                         .bias = Bias::Add,
                         .rule = CutRule::Row,
                         .spans = {span}}),
           spec::residual(name + ".add", flow, kWidth, 0)},
          true};
}

//    embed -> stem -+-> left --+-> join -> deep -> merge -> head
//                   +-> right -+                     |
//                   +--------------------------------+
Graph own_graph(DType dtype = DType::F32) {
  const spec::Flow flow{.sequences = 2, .sequence = 8, .dtype = dtype};
  Graph graph;
  graph.dtype = dtype;
  graph.inputs = {{"tokens", {"tokens", DType::I32, {16}}, testing::kVocabulary},
                  {"targets", {"targets", DType::I32, {16}}, testing::kVocabulary}};
  graph.segments = {{"embed",
                     {spec::embedding("embed", flow,
                                      {.vocabulary = testing::kVocabulary,
                                       .features = kWidth,
                                       .token_name = "embed.weight"})}},
                    dense("stem", flow),
                    divided("left", flow),
                    dense("right", flow),
                    dense("join", flow, 2 * kWidth),
                    divided("deep", flow),
                    dense("merge", flow),
                    {"head",
                     {spec::loss("head", flow,
                                 {.vocabulary = testing::kVocabulary,
                                  .features = kWidth,
                                  .weight_name = "head.weight"})}}};
  auto& join = graph.segments[4].layers;
  join.insert(join.begin(),
              spec::concat_port("join.concat", flow, {.own = kWidth, .other = kWidth}, "right"));
  auto& merge = graph.segments[6].layers;
  merge.insert(merge.begin(), spec::add_port("merge.skip", flow, kWidth, "stem"));
  graph.edges = {{{Graph::kData, "tokens"}, {0, "x"}},
                 {{0, "y"}, {1, "x"}},
                 {{1, "y"}, {2, "x"}},
                 {{1, "y"}, {3, "x"}},
                 {{1, "y"}, {6, "stem"}},
                 {{2, "y"}, {4, "x"}},
                 {{3, "y"}, {4, "right"}},
                 {{4, "y"}, {5, "x"}},
                 {{5, "y"}, {6, "x"}},
                 {{6, "y"}, {7, "x"}},
                 {{Graph::kData, "targets"}, {7, "targets"}}};
  graph.results = {{"losses", {7, "y"}}};
  return graph;
}

std::vector<Layout> layouts() {
  std::vector<Layout> all;
  for (const char* schedule : {"gpipe", "1f1b", "zb-h1", "auto"}) {
    for (const int pipeline : {1, 2, 3, 4, 6, 8})
      all.push_back({.pipeline = pipeline, .schedule = schedule});
    all.push_back({.pipeline = 4, .tensor = 2, .schedule = schedule});
    all.push_back({.pipeline = 2, .data = 2, .tensor = 2, .schedule = schedule});
  }
  all.push_back({.tensor = 2});
  all.push_back({.tensor = 2, .sequence_parallel = true});
  all.push_back({.pipeline = 3, .tensor = 2, .sequence_parallel = true});
  all.push_back({.pipeline = 3, .partition = {1, 1, 4}});
  for (const int zero : {1, 2, 3}) all.push_back({.pipeline = 3, .data = 2, .zero = zero});
  for (const auto recompute : {schedule::Recompute::Full, schedule::Recompute::Selective}) {
    for (const char* schedule : {"1f1b", "zb-h1"})
      all.push_back({.pipeline = 3, .schedule = schedule, .recompute = {recompute}});
    all.push_back({.recompute = {recompute}});
  }
  return all;
}

void expect_one_hash(const Graph& graph) {
  const testing::Outcome expected = testing::train_layout(graph, {});
  for (const Layout& layout : layouts()) {
    SCOPED_TRACE(::testing::Message()
                 << layout.schedule << ", pipeline " << layout.pipeline << ", tensor "
                 << layout.tensor << ", data " << layout.data << ", zero " << layout.zero
                 << ", recompute " << layout.recompute.size());
    const testing::Outcome outcome = testing::train_layout(graph, layout);
    EXPECT_EQ(outcome.weights, expected.weights);
    EXPECT_EQ(outcome.loss, expected.loss);
    EXPECT_TRUE(outcome.as_planned);
    EXPECT_TRUE(outcome.sent_as_planned);
  }
}

TEST(OwnGraph, HasOneHashInEveryLayout) {
  expect_one_hash(own_graph());
}

TEST(OwnGraph, HasOneHashInBf16) {
  expect_one_hash(own_graph(DType::BF16));
}

TEST(OwnGraph, HasOneHashWithFrozenParts) {
  Graph graph = own_graph();
  train_only(graph.segments, std::vector<std::string>{"right.w", "deep.up"});
  expect_one_hash(graph);
}

// The stem has three readers, whose gradients meet in it.
TEST(OwnGraph, GradientsAgreeWithFiniteDifferences) {
  const Graph graph = own_graph();
  const CompiledStep step = compile(graph, {});
  comm::run_devices(1, [&](comm::Communicator& world) {
    Device device(step, 0, 1, world);
    device.initialise(7);
    testing::ReplicaSource source(0, 0);
    const auto loss = [&] {
      MicrobatchSums sums;
      device.executor().evaluate(source, {&sums, 1});
      return sums.loss;
    };
    device.executor().run({.source = &source, .loss_scale = 1});
    for (const TensorState& tensor : device.tensors()) {
      float& weight = tensor.master.as<float>()[tensor.master.elements() / 2];
      const double gradient = tensor.gradient.as<float>()[tensor.master.elements() / 2];
      const float before = weight;
      weight = before + 1e-2f;
      const double above = loss();
      weight = before - 1e-2f;
      const double below = loss();
      weight = before;
      // Central differences are off by h² of the third derivative, and the loss is a sum of 16.
      EXPECT_NEAR(gradient, (above - below) / 2e-2, 5e-3 * (1 + std::abs(gradient))) << tensor.name;
    }
  });
}

TEST(OwnGraph, IsRefusedByNameBySchedulesForChains) {
  const auto message = [](const std::string& schedule) {
    return testing::user_error([&] {
      compile(own_graph(), {.layout = {.pipeline = 2, .schedule = schedule}, .microbatches = 4});
    });
  };
  EXPECT_EQ(message("interleaved"),
            "schedule interleaved is made for a chain of stages, not for a graph; take gpipe, "
            "1f1b, zb-h1, or auto");
  EXPECT_NE(message("zbv").find("schedule zbv is made for a chain of stages"), std::string::npos);
}

TEST(OwnGraph, MustMakeAGradientForWhatItReads) {
  Graph graph = own_graph();
  graph.segments[6].layers[0].reads[0].gradient = false;
  EXPECT_EQ(testing::user_error([&] { check(graph); }),
            "layer merge.skip reads another segment at port \"stem\" of segment \"merge\", and "
            "makes no gradient for it; set ReadTensor::gradient and write it in I, or load it from "
            "the data");
}

TEST(OwnGraph, HasAProgramThatSurvivesItsTextForm) {
  const CompiledStep step = compile(own_graph(), {.layout = {.pipeline = 3}, .microbatches = 2});
  EXPECT_FALSE(step.program.reads.empty());
  EXPECT_EQ(schedule::parse_program(schedule::to_text(step.program)), step.program);
}

// What passes from segment to segment must be there from its making to its last reader.
TEST(OwnGraph, IsNotProvenIfATensorEndsBeforeItsLastReader) {
  using schedule::BufferKind;
  const CompiledStep step = compile(own_graph(), {.layout = {.pipeline = 3}, .microbatches = 2});
  int tried = 0;
  for (std::size_t b = 0; b < step.program.buffers.size(); ++b) {
    const schedule::Buffer& buffer = step.program.buffers[b];
    const bool forward = buffer.direction == schedule::Direction::Forward && buffer.edge >= 0;
    const bool passes =
        buffer.kind == BufferKind::SegmentInput || (buffer.kind == BufferKind::Arriving && forward);
    if (!passes) continue;
    schedule::Program broken = step.program;
    --broken.buffers[b].last;
    EXPECT_FALSE(schedule::verify(broken, schedule::Level::Final).empty()) << b;
    broken = step.program;
    ++broken.buffers[b].first;
    EXPECT_FALSE(schedule::verify(broken, schedule::Level::Final).empty()) << b;
    ++tried;
  }
  EXPECT_GT(tried, 10);
}

TEST(OwnGraph, IsNotProvenIfAReadIsMissing) {
  const CompiledStep step = compile(own_graph(), {.layout = {.pipeline = 3}, .microbatches = 2});
  for (std::size_t r = 0; r < step.program.reads.size(); ++r) {
    if (step.program.reads[r].edge < 0) continue;
    schedule::Program broken = step.program;
    std::erase_if(broken.reads, [&](const schedule::SegmentRead& read) {
      return read.edge == step.program.reads[r].edge;
    });
    EXPECT_FALSE(schedule::verify(broken, schedule::Level::Final).empty()) << r;
  }
}

// Nothing that feeds the branch on the left learns, so its stage only runs forward.
TEST(OwnGraph, RunsNoBackwardPassWhereNothingLearns) {
  Graph graph = own_graph();
  train_only(graph.segments, std::vector<std::string>{"right.w"});
  const CompiledStep step = compile(graph, {.layout = {.pipeline = 8}, .microbatches = 4});
  using schedule::GradientKind;
  const std::vector<GradientKind> kinds = {GradientKind::None,      GradientKind::None,
                                           GradientKind::None,      GradientKind::Full,
                                           GradientKind::InputOnly, GradientKind::InputOnly,
                                           GradientKind::InputOnly, GradientKind::InputOnly};
  EXPECT_EQ(step.program.gradients, kinds);
  for (const schedule::Edge& edge : step.program.edges) EXPECT_EQ(edge.backward, edge.from >= 3);
}

// Skips that go over several stages.
TEST(Unet, HasOneHashInEveryLayout) {
  const ModelShape shape{.kind = &model::unet,
                         .layers = 4,
                         .hidden = 4,
                         .heads = 1,
                         .kv_heads = 1,
                         .ffn = 4,
                         .vocab = testing::kVocabulary,
                         .context = 65,
                         .image = 8,
                         .patch = 1,
                         .channels = 3,
                         .classes = testing::kVocabulary};
  const Graph graph = model::graph_of(shape, {.sequences = 4});
  const testing::Outcome expected = testing::train_layout(graph, {});
  std::vector<Layout> layouts;
  for (const char* schedule : {"1f1b", "gpipe", "zb-h1", "auto"})
    for (const int pipeline : {2, 3, 4, 6})
      layouts.push_back({.pipeline = pipeline, .schedule = schedule});
  layouts.push_back({.pipeline = 3, .data = 2, .zero = 2});
  layouts.push_back({.pipeline = 2, .tensor = 2});
  layouts.push_back({.pipeline = 3, .recompute = {schedule::Recompute::Full}});
  layouts.push_back({.pipeline = 3, .recompute = {schedule::Recompute::Selective}});
  for (const Layout& layout : layouts) {
    SCOPED_TRACE(::testing::Message() << layout.schedule << ", pipeline " << layout.pipeline);
    const testing::Outcome outcome = testing::train_layout(graph, layout);
    EXPECT_EQ(outcome.weights, expected.weights);
    EXPECT_EQ(outcome.loss, expected.loss);
    EXPECT_TRUE(outcome.as_planned);
    EXPECT_TRUE(outcome.sent_as_planned);
  }
}

}  // namespace
}  // namespace cleave::engine
