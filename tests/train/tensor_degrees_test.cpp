// Modules with tensor degrees of their own have the bits of one device with the same tensor shards,
// in planned memory and with planned traffic, whatever microbatches have images.

#include "engine/run/presence_run.h"
#include "support/errors.h"

namespace cleave::engine::presence {
namespace {

using schedule::Recompute;

/// The tensor shards of the tower, and those of the language model.
struct TensorGrid {
  int vision = 1;
  int language = 1;
};

/// One stage of the tower on `vision` devices, two of the language model on `language` each, unless
/// `others` says how many stages there are.
Layout degrees(int vision, int language, Layout others = {}) {
  if (others.pipeline == 1) others.pipeline = 3;
  others.placement = Placement::Own;
  others.encoder_stages = std::max(others.encoder_stages, 1);
  others.encoder_tensor = vision;
  others.tensor = language;
  return others;
}

CompiledStep compiled_on(const TensorGrid& grid, const Graph& graph, const Layout& layout) {
  return compile(graph, {.layout = layout,
                         .microbatches = kAllMicrobatches / layout.replicas(),
                         .data_shards = kGridShards,
                         .tensor_shards = grid.language,
                         .encoder_tensor_shards = grid.vision,
                         .optional_inputs = counts()});
}

void expect_one_hash(const TensorGrid& grid, const Graph& graph, const std::vector<Layout>& all) {
  const Outcome expected = train(compiled_on(grid, graph, {}));
  for (const Layout& layout : all) {
    SCOPED_TRACE(::testing::Message()
                 << name_of(layout) << ", tensor degree of the encoder " << layout.encoder_tensor);
    const CompiledStep step = compiled_on(grid, graph, layout);
    const Outcome outcome = train(step);
    EXPECT_EQ(step.devices(), layout.devices());
    EXPECT_EQ(outcome.losses, expected.losses);
    EXPECT_EQ(outcome.weights, expected.weights);
    EXPECT_TRUE(outcome.as_planned);
    EXPECT_TRUE(outcome.sent_as_planned);
  }
}

TEST(TensorDegrees, ChangeNoBitInAnySchedule) {
  std::vector<Layout> wide;    // in the language model
  std::vector<Layout> narrow;  // there
  for (const char* schedule : {"1f1b", "gpipe", "zb-h1", "auto"}) {
    wide.push_back(degrees(1, 2, {.schedule = schedule}));
    narrow.push_back(degrees(2, 1, {.schedule = schedule}));
  }
  wide.push_back(degrees(1, 2, {.pipeline = 4, .encoder_stages = 2}));
  const Graph graph = tiny_model(&model::vlm, DType::F32);
  expect_one_hash({.vision = 1, .language = 2}, graph, wide);
  expect_one_hash({.vision = 2, .language = 1}, graph, narrow);
}

// The same shards on equal degrees, on different ones, and folded onto fewer devices.
TEST(TensorDegrees, ChangeNoBitOfFourShards) {
  const Graph graph = tiny_model(&model::vlm, DType::F32);
  const std::vector<Layout> all = {degrees(1, 4), degrees(2, 4, {.schedule = "zb-h1"}),
                                   degrees(4, 1), degrees(4, 2, {.schedule = "gpipe"}),
                                   degrees(4, 4), {.pipeline = 2, .tensor = 4}};
  expect_one_hash({.vision = 4, .language = 4}, graph, all);
  expect_one_hash({.vision = 2, .language = 4}, graph,
                  {degrees(1, 4), degrees(2, 4), degrees(2, 1), degrees(2, 2)});
}

TEST(TensorDegrees, ChangeNoBitBesideReplicasThatShareState) {
  std::vector<Layout> all;
  for (const int zero : {0, 1, 2, 3}) {
    all.push_back(degrees(1, 2, {.data = 2, .zero = zero}));
    all.push_back(degrees(2, 1, {.data = 2, .schedule = "zb-h1", .zero = zero}));
  }
  all.push_back(degrees(1, 2, {.recompute = {Recompute::Full}}));
  all.push_back(degrees(2, 1, {.recompute = {Recompute::Selective}}));
  all.push_back(degrees(1, 2, {.offload = schedule::Offload::Both}));
  // Both numbers of a module may be its own: two towers of one device each feed two devices.
  all.push_back(degrees(1, 2, {.encoder_data = 2}));
  all.push_back(degrees(2, 1, {.data = 2, .encoder_data = 1, .zero = 1}));
  expect_one_hash({.vision = 2, .language = 2}, tiny_model(&model::vlm, DType::F32), all);
}

TEST(TensorDegrees, ChangeNoBitInBf16WithFrozenPartsAndSeveralReaders) {
  const std::vector<Layout> all = {degrees(1, 2), degrees(2, 1, {.schedule = "zb-h1"})};
  const TensorGrid grid{.vision = 2, .language = 2};
  expect_one_hash(grid, tiny_model(&model::vlm, DType::BF16), all);
  Graph frozen = tiny_model(&model::vlm, DType::F32);
  train_only(frozen.segments, std::vector<std::string>{"language"});
  expect_one_hash(grid, frozen, all);
  expect_one_hash(grid, testing::tiny_deepstack(DType::F32), all);
}

// Two readers get half of a message each and gather it; backwards two halves come to one device.
TEST(TensorDegrees, MoveEachByteOfAMessageOnce) {
  const CompiledStep step =
      compiled_on({.vision = 1, .language = 2}, tiny_model(&model::vlm, DType::F32),
                  degrees(1, 2, {.pipeline = 2}));
  const schedule::Edge& edge = step.program.edges[0];
  const std::int64_t y = kAllMicrobatches * edge.forward_bytes;
  ASSERT_EQ(step.devices(), 3);
  EXPECT_EQ(step.traffic_of(-1)[0].message, y);
  EXPECT_EQ(step.traffic_of(-1)[1].message, kAllMicrobatches * edge.backward_bytes / 2);
  EXPECT_EQ(step.traffic_of(-1)[2].message, kAllMicrobatches * edge.backward_bytes / 2);
  for (const int device : {1, 2}) EXPECT_GE(step.traffic_of(-1)[device].gather, y / 2);
}

TEST(TensorDegrees, AreRefusedWithWhatTheyDoNotGoWith) {
  const Graph graph = tiny_model(&model::vlm, DType::F32);
  const auto refusal = [&](const Layout& layout) {
    return testing::user_error([&] { compiled_on({.vision = 2, .language = 2}, graph, layout); });
  };
  const std::string degrees_are = "parallel.vision.tensor 1 beside tensor 2 of the language model";
  EXPECT_EQ(refusal(degrees(1, 2, {.sequence_parallel = true})),
            degrees_are +
                " divides no rows among devices; set parallel.sequence_parallel = false, or make "
                "the degrees equal");
  EXPECT_EQ(refusal(degrees(1, 2, {.order = {Axis::Tensor, Axis::Pipeline, Axis::Data}})),
            degrees_are +
                " counts devices place by place; leave parallel.order and edge out, or make the "
                "degrees equal");
  EXPECT_EQ(refusal(degrees(1, 2, {.chunks = 2})),
            degrees_are +
                " is for one stage on each device, not parallel.chunks 2; leave that out, or make "
                "the degrees equal");
  EXPECT_EQ(refusal(degrees(1, 2, {.schedule = "own.csv"})),
            degrees_are +
                " has no order in the file own.csv; take 1f1b, zb-h1, gpipe or auto, or make the "
                "degrees equal");
  EXPECT_EQ(refusal({.pipeline = 3, .tensor = 2, .encoder_tensor = 1}),
            degrees_are +
                " is for modules on devices of their own; set parallel.placement = \"own\", or "
                "make the degrees equal");
  EXPECT_EQ(testing::user_error([&] {
              compile(graph, {.layout = degrees(1, 2), .device_kinds = {"cpu", "opencl"}});
            }),
            degrees_are + " is for processors; leave devices.kind out, or make the degrees equal");
  EXPECT_EQ(
      testing::user_error([&] { compiled_on({.vision = 1, .language = 2}, graph, degrees(2, 1)); }),
      "numerics.vision.tensor_shards 1 cannot be shared by parallel.vision.tensor 2; choose a "
      "degree that divides the shards");
}

}  // namespace
}  // namespace cleave::engine::presence
