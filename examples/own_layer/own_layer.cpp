// A layer of your own, in a model that cleave trains and cuts over devices.
//
// The layer is LayerScale (Touvron et al. 2021): y = x · gain, one learned gain per feature, at the
// end of each branch of a transformer block. cleave does not have it. Four things are needed:
//
//   1. a LayerSpec: what the layer has and keeps, before anything runs
//   2. a class derived from Layer: F, I and W
//   3. a model with the layer in it: a ModelSpec is plain data, so insert it
//   4. a factory that makes the class for its kind
//
// From there on it is a layer like any other: its memory is planned, its gradient reduced, its
// weight saved under its name, and the model trains on any layout, with the same bits.

#include <cmath>
#include <cstdio>
#include <mutex>

#include "cleave/comm/local/local_world.h"
#include "cleave/engine/compile/compile.h"
#include "cleave/engine/run/device.h"
#include "cleave/layers/layer.h"
#include "cleave/ops/parallel.h"
#include "cleave/spec/model_spec.h"
#include "cleave/train/step/adamw.h"

namespace cleave {
namespace {

constexpr int kSteps = 80;
constexpr int kMicrobatches = 4;
constexpr std::int64_t kVocabulary = 64;

// ---- 1. The layer as data
// -------------------------------------------------------------------------

LayerSpec layer_scale_spec(const std::string& name, const spec::Flow& flow, std::int64_t features) {
  LayerSpec spec;
  spec.kind = "layer_scale";
  spec.name = name;
  spec.x = {"x", flow.dtype, {flow.tokens(), features}};
  spec.y = {"y", flow.dtype, {flow.tokens(), features}};
  // W computes Σ dy · x over the tokens, so both must live until then. Whatever is not declared
  // here is gone, or overwritten, by the time W runs: with a zero-bubble schedule that is much
  // later than I.
  spec.x_until = Until::Weight;
  spec.dy_until = Until::Weight;
  const std::string gain = name + ".gain";
  spec.parameters = {{.name = gain,
                      .shape = {features},
                      .init = {.mean = 0.5f, .deviation = 0},
                      .decay = Decay::No,
                      .pieces = {{gain, 0, features}}}};
  return spec;
}

// ---- 2. The layer as code
// -------------------------------------------------------------------------

/// y = x · gain; x, y [tokens, features], gain [features]. f32 only.
class LayerScale : public Layer {
 public:
  using Layer::Layer;

  void forward(ops::Compute& compute, const LayerCall& call) override {
    scale_rows(compute, call.x, call.y);
  }

  /// dx = dy · gain
  void backward_input(ops::Compute& compute, const LayerCall& call) override {
    scale_rows(compute, call.dy, call.dx);
  }

  /// dgain[f] += Σ dy[t, f] · x[t, f]. Threads divide the features, so that every sum runs over the
  /// tokens in their order, however many threads there are.
  void backward_weight(ops::Compute& compute, const LayerCall& call) override {
    const float* x = call.x.as<float>();
    const float* dy = call.dy.as<float>();
    float* sums = gradient(0, call).as<float>();
    const std::int64_t tokens = call.x.size(0);
    const std::int64_t features = call.x.size(1);
    ops::parallel_for(compute, features, 64, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t f = begin; f < end; ++f) {
        float sum = 0;
        for (std::int64_t t = 0; t < tokens; ++t) sum += dy[t * features + f] * x[t * features + f];
        // The first microbatch of a step overwrites: gradients are never cleared.
        sums[f] = call.gradient == Write::Overwrite ? sum : sums[f] + sum;
      }
    });
  }

 private:
  void scale_rows(ops::Compute& compute, ConstView from, View to) {
    const float* gain = parameter(0).value.as<float>();
    const float* in = from.as<float>();
    float* out = to.as<float>();
    const std::int64_t features = from.size(1);
    ops::parallel_for(compute, from.size(0), 16, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t t = begin; t < end; ++t) {
        for (std::int64_t f = 0; f < features; ++f) {
          out[t * features + f] = in[t * features + f] * gain[f];
        }
      }
    });
  }
};

// ---- 3. The model
// ---------------------------------------------------------------------------------

/// A small GPT with a LayerScale before every residual connection.
ModelSpec model() {
  const spec::Flow flow{.sequences = 4, .sequence = 32, .dtype = DType::F32};
  ModelSpec model = model_spec({.kind = ModelKind::Gpt,
                                .layers = 4,
                                .hidden = 64,
                                .heads = 4,
                                .kv_heads = 4,
                                .ffn = 128,
                                .vocab = kVocabulary,
                                .context = 32},
                               flow);
  for (SegmentSpec& segment : model.segments) {
    std::vector<LayerSpec> layers;
    std::vector<int> moved;  // where each layer of the block is now
    for (LayerSpec& layer : segment.layers) {
      if (layer.kind == "residual") {
        layers.push_back(layer_scale_spec(layer.name + ".scale", flow, model.shape.hidden));
        layer.skip = moved[layer.skip];  // a residual names the layer whose x it adds
      }
      moved.push_back(static_cast<int>(layers.size()));
      layers.push_back(std::move(layer));
    }
    segment.layers = std::move(layers);
  }
  return model;
}

// ---- 4. The factory
// -------------------------------------------------------------------------------

std::unique_ptr<Layer> make(const LayerSpec& spec) {
  if (spec.kind == "layer_scale") return std::make_unique<LayerScale>(spec);
  return make_layer(spec);
}

// ---- Training
// -------------------------------------------------------------------------------------

/// Something to learn: every token follows from the one before.
class Sequences : public engine::MicrobatchSource {
 public:
  explicit Sequences(int step) : step_(step) {}
  void load_tokens(int microbatch, View tokens) override { load(microbatch, tokens, 0); }
  void load_targets(int microbatch, View targets) override { load(microbatch, targets, 1); }

 private:
  void load(int microbatch, View ids, int shift) const {
    std::int64_t token = (step_ * kMicrobatches + microbatch) * 7 % kVocabulary;
    for (int i = 0; i < shift; ++i) token = (token * 5 + 3) % kVocabulary;
    for (std::int64_t i = 0; i < ids.elements(); ++i) {
      ids.as<std::int32_t>()[i] = static_cast<std::int32_t>(token);
      token = (token * 5 + 3) % kVocabulary;
    }
  }
  int step_;
};

struct Outcome {
  double first_loss = 0;
  double last_loss = 0;
  std::string weights;  ///< hash
};

/// Trains the model cut over `devices` devices, threads of this process.
Outcome train_on(int devices) {
  const ModelSpec spec = model();
  const engine::CompiledStep step = engine::compile(
      spec, {.layout = {.pipeline = devices}, .microbatches = kMicrobatches, .make_layer = make});

  Outcome outcome;
  std::mutex mutex;
  std::vector<std::pair<std::string, std::uint64_t>> hashes;
  comm::run_devices(devices, [&](comm::Communicator& world) {
    engine::Device device(step, world.rank(), 1, &world, make);
    device.initialise(1);
    train::AdamW optimizer({.steps = kSteps, .lr = 3e-3, .warmup = 10});
    const float loss_scale = 1.0f / static_cast<float>(kMicrobatches * spec.flow.tokens());
    for (int s = 0; s < kSteps; ++s) {
      Sequences source(s);
      optimizer.begin_step(s);
      const engine::StepResult result = device.executor().run(
          {.source = &source, .optimizer = &optimizer, .loss_scale = loss_scale});
      if (world.rank() != 0) continue;
      if (s == 0) outcome.first_loss = result.loss;
      outcome.last_loss = result.loss;
    }
    const std::lock_guard lock(mutex);
    for (auto& hash : device.weight_hashes()) hashes.push_back(std::move(hash));
  });
  outcome.weights = engine::combine_hashes(hashes);
  return outcome;
}

}  // namespace
}  // namespace cleave

int main() {
  using cleave::Outcome;
  using cleave::train_on;
  const Outcome one = train_on(1);
  std::printf("1 device:  loss %.4f -> %.4f, weights %s\n", one.first_loss, one.last_loss,
              one.weights.c_str());
  const Outcome two = train_on(2);
  std::printf("2 devices: loss %.4f -> %.4f, weights %s\n", two.first_loss, two.last_loss,
              two.weights.c_str());

  // What this example promises, so that it can be run as a test.
  const bool learned = one.last_loss < 0.5 * one.first_loss;
  const bool same = one.weights == two.weights;
  if (!learned) std::printf("the loss did not fall by half\n");
  if (!same) std::printf("the weights depend on the layout\n");
  return learned && same ? 0 : 1;
}
