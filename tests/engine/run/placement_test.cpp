// Where the encoder of a model is: on the first device, on devices of its own, or beside stages of
// the language model on every device.

#include "engine/run/train_layout.h"
#include "support/errors.h"
#include <gtest/gtest.h>

#include "cleave/spec/trainable.h"

namespace cleave::engine {
namespace {

using schedule::BufferKind;
using testing::tiny_model;

enum class Graphs { Chains, OfAnyShape };

std::vector<Layout> placements(Graphs graphs) {
  std::vector<Layout> all;
  for (const char* schedule : {"1f1b", "gpipe", "zb-h1", "auto"}) {
    for (const Placement placement : {Placement::First, Placement::Auto})
      all.push_back({.pipeline = 3, .schedule = schedule, .placement = placement});
    for (const int encoder : {1, 2, 3})
      all.push_back({.pipeline = 4,
                     .schedule = schedule,
                     .placement = Placement::Own,
                     .encoder_stages = encoder});
  }
  for (const char* schedule : {"interleaved", "looped-bfs", "auto"}) {
    if (graphs == Graphs::OfAnyShape) break;  // these put two stages on a device, in a chain
    for (const Placement placement : {Placement::Shared, Placement::Auto})
      all.push_back({.pipeline = 2, .chunks = 2, .schedule = schedule, .placement = placement});
  }
  all.push_back(
      {.pipeline = 3, .data = 2, .placement = Placement::Own, .encoder_stages = 1, .zero = 3});
  all.push_back({.pipeline = 2, .tensor = 2, .placement = Placement::Own, .encoder_stages = 1});
  return all;
}

void expect_one_hash_wherever_placed(const Graph& graph, Graphs graphs = Graphs::Chains) {
  const testing::Outcome expected = testing::train_layout(graph, {});
  for (const Layout& layout : placements(graphs)) {
    SCOPED_TRACE(::testing::Message()
                 << layout.schedule << ", placement " << static_cast<int>(layout.placement)
                 << ", pipeline " << layout.pipeline << ", encoder " << layout.encoder_stages);
    const testing::Outcome outcome = testing::train_layout(graph, layout);
    EXPECT_EQ(outcome.weights, expected.weights);
    EXPECT_EQ(outcome.loss, expected.loss);
    EXPECT_TRUE(outcome.as_planned);
    EXPECT_TRUE(outcome.sent_as_planned);
  }
}

TEST(Placement, ChangesNoBit) {
  expect_one_hash_wherever_placed(tiny_model(&model::vlm, DType::F32));
}

// Features go to several stages; schedules that are made for chains do not take such graphs.
TEST(Placement, ChangesNoBitWhereSeveralLayersReadTheEncoder) {
  expect_one_hash_wherever_placed(testing::tiny_deepstack(DType::F32), Graphs::OfAnyShape);
  Graph frozen = testing::tiny_deepstack(DType::F32);
  train_only(frozen.segments, std::vector<std::string>{"projector"});
  expect_one_hash_wherever_placed(frozen, Graphs::OfAnyShape);
}

TEST(Placement, ChangesNoBitWithAFrozenEncoder) {
  Graph graph = tiny_model(&model::vlm, DType::F32);
  train_only(graph.segments, std::vector<std::string>{"language"});
  expect_one_hash_wherever_placed(graph);
}

TEST(Placement, CutsBetweenModules) {
  const Graph graph = tiny_model(&model::vlm, DType::F32);
  const CompiledStep step =
      compile(graph, {.layout = {.pipeline = 4, .placement = Placement::Own, .encoder_stages = 2},
                      .microbatches = 4});
  for (int s = 0; s < 4; ++s) {
    for (const SegmentSpec& segment : step.stages[s])
      EXPECT_EQ(segment.module == "language", s >= 2) << segment.name;
  }
}

// Its weights, what leaves it, and the scratch of its kernels: nothing else, to the byte.
TEST(Placement, LeavesAFrozenEncoderWithoutGradientsAndOptimizer) {
  Graph graph = tiny_model(&model::vlm, DType::F32);
  train_only(graph.segments, std::vector<std::string>{"language"});
  const CompiledStep step =
      compile(graph, {.layout = {.pipeline = 3, .placement = Placement::Own, .encoder_stages = 1},
                      .microbatches = 4});
  std::int64_t weights = 0;
  for (const SegmentSpec& segment : step.stages[0]) {
    for (const LayerSpec& layer : segment.layers) {
      for (const ParameterSpec& parameter : layer.parameters)
        weights += (parameter.elements() + 31) / 32 * 32 * 4;  // aligned to a grain
    }
  }
  const std::int64_t y = step.stages[0].back().layers.back().y.bytes();
  std::int64_t passing = 0;
  for (const schedule::Buffer& buffer : step.program.buffers) {
    if (buffer.device != 0) continue;
    const bool known = buffer.kind == BufferKind::Weights || buffer.kind == BufferKind::Scratch ||
                       buffer.kind == BufferKind::Leaving ||
                       buffer.kind == BufferKind::SegmentInput;
    EXPECT_TRUE(known) << static_cast<int>(buffer.kind);
    if (buffer.kind == BufferKind::Weights) {
      EXPECT_EQ(buffer.bytes, weights);
    }
    if (buffer.kind == BufferKind::Leaving) {
      EXPECT_EQ(buffer.bytes, y);
    }
    if (buffer.kind == BufferKind::SegmentInput) passing = std::max(passing, buffer.bytes);
  }
  EXPECT_GT(passing, 0);
  for (const schedule::Instruction& i : step.program.lists[0])
    EXPECT_TRUE(!schedule::is_compute(i.op) || i.op == schedule::Op::Forward);
}

TEST(Placement, IsRefusedWhereThereIsNoEncoder) {
  EXPECT_EQ(testing::user_error([] {
              compile(tiny_model(&model::gpt, DType::F32),
                      {.layout = {.pipeline = 2, .placement = Placement::First}});
            }),
            "parallel.placement says where the encoder of a model is, and this one has no modules; "
            "leave it out");
}

}  // namespace
}  // namespace cleave::engine
