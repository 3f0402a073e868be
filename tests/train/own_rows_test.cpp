// What a user adds from outside: kinds of layers with attributes of their own, a family of models,
// a schedule and an optimizer, each by one row. They train on every axis at once with the bits of
// one device.

#include <mutex>

#include "support/tiny_model.h"
#include "train/last_first.h"
#include <gtest/gtest.h>

#include "cleave/comm/local/local_world.h"
#include "cleave/engine/compile/compile.h"
#include "cleave/engine/run/device.h"
#include "cleave/layers/layer_kinds.h"
#include "cleave/model/family.h"
#include "cleave/ops/elementwise.h"
#include "cleave/shard/parameter_cut.h"
#include "cleave/train/step/run_optimizer.h"

namespace cleave::train {
namespace {

constexpr int kOwnSteps = 6;
constexpr int kOwnMicrobatches = 4;  // of the whole step

struct SlopeAttributes {
  float slope = 0;
  friend bool operator==(const SlopeAttributes&, const SlopeAttributes&) = default;
};

/// y = x where x > 0, slope · x elsewhere.
class Leaky : public Layer {
 public:
  using Layer::Layer;
  void forward(ops::Compute&, const LayerCall& call) override { scale(call.x, call.x, call.y); }
  void backward_input(ops::Compute&, const LayerCall& call) override {
    scale(call.x, call.dy, call.dx);
  }

 private:
  void scale(ConstView sign, ConstView in, View out) const {
    const float slope = spec().as<SlopeAttributes>().slope;
    for (std::int64_t i = 0; i < out.elements(); ++i) {
      const float by = sign.as<float>()[i] > 0 ? 1 : slope;
      out.as<float>()[i] = in.as<float>()[i] * by;
    }
  }
};

LayerSpec leaky(const std::string& name, const spec::Flow& flow, std::int64_t features) {
  LayerSpec layer;
  layer.kind = "leaky";
  layer.name = name;
  layer.x = {"x", flow.dtype, {flow.tokens(), features}};
  layer.y = {"y", flow.dtype, {flow.tokens(), features}};
  layer.x_until = Until::Input;
  layer.attributes = SlopeAttributes{0.25f};
  return layer;
}

/// A shard has its part of the features.
std::optional<shard::LayerShard> cut_leaky(const LayerSpec& whole, const shard::ShardNumber& n) {
  shard::LayerShard cut{.layer = whole};
  cut.layer.name = shard::shard_name(whole.name, n.local);
  cut.layer.x.shape = whole.x.shape.with(1, whole.x.shape[1] / n.of);
  cut.layer.y.shape = cut.layer.x.shape;
  return cut;
}

/// y = x + shift, where the rows of one sequence share what they know: shift is the mean of the
/// first row's features times a learned gain [1]. It says nothing of being cut.
class FirstRow : public Layer {
 public:
  using Layer::Layer;
  void forward(ops::Compute&, const LayerCall& call) override {
    const float gain = parameter(0).value.as<float>()[0];
    const float shift = gain * mean_of(call.x.as<float>(), call.x.size(1));
    for (std::int64_t i = 0; i < call.y.elements(); ++i)
      call.y.as<float>()[i] = call.x.as<float>()[i] + shift;
  }
  void backward_input(ops::Compute& compute, const LayerCall& call) override {
    const std::int64_t features = call.dx.size(1);
    const float gain = parameter(0).value.as<float>()[0];
    const float sum = sum_of(call.dy);
    ops::copy(compute, call.dy, call.dx);
    for (std::int64_t f = 0; f < features; ++f)
      call.dx.as<float>()[f] += gain * sum / static_cast<float>(features);
  }
  void backward_weight(ops::Compute&, const LayerCall& call) override {
    float* const to = gradient(0, call).as<float>();
    const float added = mean_of(call.x.as<float>(), call.x.size(1)) * sum_of(call.dy);
    to[0] = call.gradient == Write::Overwrite ? added : to[0] + added;
  }

 private:
  static float mean_of(const float* row, std::int64_t features) {
    float sum = 0;
    for (std::int64_t f = 0; f < features; ++f) sum += row[f];
    return sum / static_cast<float>(features);
  }
  static float sum_of(ConstView dy) {
    float sum = 0;
    for (std::int64_t i = 0; i < dy.elements(); ++i) sum += dy.as<float>()[i];
    return sum;
  }
};

LayerSpec first_row(const std::string& name, const spec::Flow& flow, std::int64_t features) {
  LayerSpec layer;
  layer.kind = "own_first_row";
  layer.name = name;
  layer.x = {"x", flow.dtype, {flow.tokens(), features}};
  layer.y = {"y", flow.dtype, {flow.tokens(), features}};
  layer.x_until = Until::Weight;
  layer.dy_until = Until::Weight;
  layer.parameters = {{.name = name + ".gain",
                       .shape = {1},
                       .init = {.mean = 0.5f},
                       .pieces = {{.name = name + ".gain", .extent = 1}}}};
  return layer;
}

/// A GPT whose activation is leaky, with a first_row before the norm of every feed-forward part.
Graph build_leaky_gpt(const ModelShape& shape, const spec::Flow& flow, std::int64_t loss_blocks) {
  Graph graph = model::gpt.build(shape, flow, loss_blocks);
  for (SegmentSpec& segment : graph.segments) {
    if (!segment.block) continue;
    std::vector<LayerSpec> layers;
    for (LayerSpec& layer : segment.layers) {
      if (layer.kind == "gelu") layer = leaky(layer.name, flow, shape.ffn);
      if (layer.skip > 0) layer.skip += 1;
      layers.push_back(std::move(layer));
      if (layers.size() == 5) layers.push_back(first_row(segment.name, flow, shape.hidden));
    }
    segment.layers = std::move(layers);
  }
  return graph;
}

constexpr model::Family kLeakyGpt = {.name = "leaky-gpt",
                                     .build = build_leaky_gpt,
                                     .default_ffn = [](std::int64_t hidden) { return hidden; }};

LayerKinds own_kinds() {
  LayerKinds kinds;
  kinds.add(layer_kind<Leaky>("leaky", {.cut = cut_leaky}));
  kinds.add(layer_kind<FirstRow>("own_first_row"));
  return kinds;
}

/// Every element moves by the learning rate, against the sign of a running mean of its gradients.
void follow_signs(ops::Compute&, const engine::ParameterState& parameter,
                  const engine::UpdateStep& at) {
  const auto scale = static_cast<float>(at.gradient_scale);
  const auto lr = static_cast<float>(at.lr);
  const float* gradient = parameter.gradient.as<float>();
  float* mean = parameter.slot("mean").as<float>();
  float* weight = parameter.master.as<float>();
  for (std::int64_t i = 0; i < parameter.elements(); ++i) {
    mean[i] = 0.9f * mean[i] + 0.1f * scale * gradient[i];
    weight[i] -= mean[i] > 0 ? lr : mean[i] < 0 ? -lr : 0;
  }
}

const engine::OptimizerKind& own_optimizer() {
  static const engine::OptimizerKind row{
      .name = "own-signs",
      .slots = [](const ParameterSpec&,
                  const engine::Hyper&) { return std::vector<std::string>{"mean"}; },
      .update = follow_signs};
  return row;
}

struct OwnOutcome {
  std::string weights;
  bool as_planned = true;
};

OwnOutcome train_own_rows(const engine::Layout& layout) {
  ModelShape shape = testing::tiny_shape(&kLeakyGpt, 4);
  shape.tie_embeddings = true;
  const LayerKinds kinds = own_kinds();
  const int microbatches = kOwnMicrobatches / layout.data;
  const engine::CompiledStep step = engine::compile(
      model::graph_of(shape, {.sequence = testing::kSequence}), {.layout = layout,
                                                                 .microbatches = microbatches,
                                                                 .data_shards = 2,
                                                                 .tensor_shards = 2,
                                                                 .optimizer = &own_optimizer(),
                                                                 .kinds = kinds});
  std::mutex mutex;
  OwnOutcome outcome;
  std::vector<std::pair<std::string, std::uint64_t>> hashes;
  comm::run_devices(step.devices(), [&](comm::Communicator& world) {
    const int index = world.rank();
    engine::Device device(step, index, 1, world, kinds);
    device.initialise(3);
    RunOptimizer optimizer({.steps = kOwnSteps, .lr = 1e-2, .warmup = 1}, own_optimizer());
    bool sent = true;
    for (int s = 0; s < kOwnSteps; ++s) {
      testing::ReplicaSource source(step.replica_of(index) * microbatches, s);
      optimizer.begin_step(s);
      const comm::Sent before = world.sent();
      device.executor().run({.source = &source,
                             .optimizer = &optimizer,
                             .loss_scale = 1.0f / (kOwnMicrobatches * 16)});
      sent = sent && world.sent() - before == step.traffic[index];
    }
    const std::lock_guard lock(mutex);
    outcome.as_planned =
        outcome.as_planned && sent && device.arena().peak() == step.planned_on(index);
    if (!device.is_owner()) return;
    for (auto& hash : device.weight_hashes()) hashes.push_back(std::move(hash));
  });
  outcome.weights = engine::combine_hashes(hashes);
  return outcome;
}

TEST(OwnRows, TrainOnEveryAxisWithTheBitsOfOneDevice) {
  const OwnOutcome one = train_own_rows({});
  EXPECT_TRUE(one.as_planned);
  const std::vector<engine::Layout> layouts = {
      {.pipeline = 2, .data = 2, .tensor = 2, .schedule = testing::last_first_schedule()},
      {.pipeline = 2, .data = 2, .tensor = 2, .zero = 1},
      {.pipeline = 2, .data = 2, .tensor = 2, .sequence_parallel = true},
      {.tensor = 2, .sequence_parallel = true, .recompute = {schedule::Recompute::Full}},
      {.pipeline = 2, .tensor = 2, .sequence_parallel = true, .schedule = "zb-h1"},
  };
  for (const engine::Layout& layout : layouts) {
    const OwnOutcome outcome = train_own_rows(layout);
    EXPECT_EQ(outcome.weights, one.weights)
        << layout.pipeline << layout.data << layout.tensor << layout.sequence_parallel;
    EXPECT_TRUE(outcome.as_planned);
  }
}

TEST(OwnRows, AreFoundByName) {
  const std::vector<const model::Family*> known = {&model::gpt, &kLeakyGpt};
  EXPECT_EQ(model::find_family("leaky-gpt", known), &kLeakyGpt);
  EXPECT_NE(own_kinds().find("leaky"), nullptr);
  EXPECT_EQ(LayerKinds().find("leaky"), nullptr);
}

TEST(OwnRows, AttributesAreComparedByTypeAndValue) {
  const Attributes slope = SlopeAttributes{0.5f};
  EXPECT_EQ(slope, Attributes(SlopeAttributes{0.5f}));
  EXPECT_NE(slope, Attributes(SlopeAttributes{0.25f}));
  EXPECT_NE(slope, Attributes(NormAttributes{0.5f}));
  EXPECT_NE(slope, Attributes());
  EXPECT_EQ(slope.get_if<NormAttributes>(), nullptr);
}

}  // namespace
}  // namespace cleave::train
