// Every layer of every family's smallest models, on the first accelerator of this machine and on
// the processor: all tensors have the same bits afterwards, and none is without kernels. Skipped
// where there is no accelerator.

#include <algorithm>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "train/special_model.h"
#include <gtest/gtest.h>
#include <unistd.h>

#include "cleave/base/philox.h"
#include "cleave/layers/layer_kinds.h"
#include "cleave/model/presets.h"
#include "cleave/ops/accelerator.h"
#include "cleave/spec/lora.h"
#include "cleave/spec/trainable.h"
#include "cleave/tensor/arena.h"
#include "cleave/tensor/bf16.h"

namespace cleave {
namespace {

constexpr std::int32_t kIds = 7;  // less than every vocabulary, number of classes and sequence

/// The layer that runs, for whoever has to say which one touched elements of an accelerator.
char running[256] = "";

void name_the_layer(int) {
  constexpr char kWhat[] = " has no kernel on accelerators: the host touched its elements\n";
  const auto ignored = write(STDERR_FILENO, running, std::strlen(running)) +
                       write(STDERR_FILENO, kWhat, sizeof kWhat - 1);
  _exit(ignored > 0 ? 1 : 2);
}

/// Elements of an accelerator lie where the host may not read: whoever does so gets this signal.
struct NamedFaults {
  NamedFaults() : before(std::signal(SIGSEGV, name_the_layer)) {}
  ~NamedFaults() { std::signal(SIGSEGV, before); }
  void (*before)(int);
};

/// A layer alone in one memory, with the tensors that its spec declares.
class LayerBench {
 public:
  LayerBench(const LayerSpec& spec, DType dtype, ops::Compute& compute, Memory& memory)
      : compute_(compute), memory_(memory), arena_(kRoom, memory), layer_(LayerKinds()(spec)) {
    x_ = take(spec.x, 1);
    y_ = take(spec.y, 2);
    dy_ = take(spec.y, 3);
    dx_ = take(spec.x, 4);
    skip_ = spec.skip >= 0 ? take(spec.x, 5) : View();
    for (const ReadTensor& read : spec.reads) {
      reads_.push_back(take(read.tensor, 6));
      read_gradients_.push_back(read.gradient ? take(read.tensor, 7) : View());
    }
    for (const TensorSpec& all : spec.collected) collected_.push_back(take(all, 8));
    for (const KeptTensor& kept : spec.kept_by_forward) by_forward_.push_back(take(kept.tensor, 9));
    for (const TensorSpec& kept : spec.kept_by_input) by_input_.push_back(take(kept, 10));
    std::vector<Parameter> parameters;
    for (const ParameterSpec& parameter : spec.parameters)
      parameters.push_back({take({parameter.name, dtype, parameter.shape}, 11),
                            take({parameter.name, DType::F32, parameter.shape}, 12)});
    std::vector<View> constants, sums;
    for (const TensorSpec& constant : spec.constants) constants.push_back(take(constant, 13));
    for (const TensorSpec& sum : spec.sums) sums.push_back(take(sum, 14));
    layer_->bind(parameters, constants, sums, memory);
    CLEAVE_CHECK(end_ + kScratch <= kRoom, spec.name, " has no room");
    compute.set_scratch({arena_.at(end_), static_cast<std::size_t>(kScratch)});
  }

  /// F, I and W of two microbatches, whose gradients are added.
  std::vector<std::byte> run() {
    const LayerSpec& spec = layer_->spec();
    for (const Write write : {Write::Overwrite, Write::Accumulate}) {
      const LayerCall call{.x = x_,
                           .y = y_,
                           .skip = skip_,
                           .reads = reads_,
                           .dy = dy_,
                           .dx = dx_,
                           .read_gradients = read_gradients_,
                           .kept_by_forward = by_forward_,
                           .kept_by_input = by_input_,
                           .gradient = write,
                           .ends_sum = write == Write::Accumulate,
                           .loss_scale = 0.25f,
                           .collected = collected_};
      if (!collected_.empty()) {
        memory_.copy(collected_[0].bytes(), x_.bytes(), x_.byte_count());
        layer_->begin_step(compute_, call);
      }
      layer_->forward(compute_, call);
      if (!spec.dx_is_dy) layer_->backward_input(compute_, call);
      if (trains(spec)) layer_->backward_weight(compute_, call);
    }
    std::vector<std::byte> all(static_cast<std::size_t>(end_));
    memory_.copy_out(arena_.at(0), all);
    return all;
  }

 private:
  static constexpr std::int64_t kRoom = std::int64_t{32} << 20;
  // More than a layer says: here it may make a dx that its model does without.
  static constexpr std::int64_t kScratch = std::int64_t{8} << 20;

  View take(const TensorSpec& tensor, std::uint64_t seed) {
    const View view(arena_.at(end_), tensor.dtype, tensor.shape);
    end_ += tensor.bytes();
    CLEAVE_CHECK(end_ <= kRoom, tensor.name, " has no room");
    std::vector<std::byte> values(static_cast<std::size_t>(view.byte_count()));
    const View here(values.data(), tensor.dtype, tensor.shape);
    const Philox random(seed, "accelerated layer", tensor.name);
    for (std::int64_t i = 0; i < view.elements(); ++i) {
      if (tensor.dtype == DType::I32) {
        here.as<std::int32_t>()[i] = static_cast<std::int32_t>(random.below(kIds, i));
      } else if (tensor.dtype == DType::BF16) {
        here.as<BFloat16>()[i] = to_bf16(random.normal(i));
      } else {
        here.as<float>()[i] = random.normal(i);
      }
    }
    memory_.copy_in(view.bytes(), values);
    return view;
  }

  ops::Compute& compute_;
  Memory& memory_;
  Arena arena_;
  std::unique_ptr<Layer> layer_;
  std::int64_t end_ = 0;
  View x_, y_, dy_, dx_, skip_;
  std::vector<View> reads_, read_gradients_, collected_, by_forward_, by_input_;
};

/// The smallest models of all families, and one with adapters.
std::vector<Graph> smallest_models(DType dtype) {
  const auto is_tiny = [](const model::Preset& p) { return p.name.ends_with("-tiny"); };
  std::vector<Graph> models;
  for (const model::Preset& preset : model::presets()) {
    if (!is_tiny(preset)) continue;
    const bool both = preset.shape.kind->reads_images && preset.shape.kind->reads_tokens;
    models.push_back(model::graph_of(
        preset.shape, {.sequences = 2, .sequence = 24, .dtype = dtype, .images = both ? 2 : 1}));
  }
  for (const model::Family* family : model::families())
    if (std::ranges::none_of(family->presets, is_tiny))
      models.push_back(testing::special_model(family, dtype));
  Graph adapted = testing::tiny_model(&model::llama, dtype, /*layers=*/1);
  freeze(adapted.segments);
  add_adapters(adapted, {.rank = 4, .alpha = 8, .targets = {Lora::kAllLinear}});
  models.push_back(std::move(adapted));
  return models;
}

/// Layers that differ in more than their names.
std::vector<LayerSpec> layers_of(const std::vector<Graph>& models) {
  std::vector<LayerSpec> found;
  for (const Graph& model : models) {
    for (const SegmentSpec& segment : model.segments) {
      for (const LayerSpec& layer : segment.layers) {
        const auto is_known = [&](LayerSpec other) {
          if (other.kind != layer.kind || other.parameters.size() != layer.parameters.size())
            return false;
          other.name = layer.name;
          other.skip = layer.skip;
          other.parameters = layer.parameters;
          return other == layer;
        };
        if (std::ranges::none_of(found, is_known)) found.push_back(layer);
      }
    }
  }
  return found;
}

class EveryLayerOnAccelerators : public ::testing::TestWithParam<DType> {};

TEST_P(EveryLayerOnAccelerators, HasKernelsWithTheBitsOfTheProcessor) {
  const ops::Accelerators found = ops::find_accelerators();
  if (found.all.empty()) GTEST_SKIP() << found.problem;
  const std::unique_ptr<ops::Accelerator> accelerator = ops::open_accelerator(found.all[0]);
  ops::Compute on_host(1, ops::Arithmetic::Exact);
  ops::Compute on_device(1, ops::Arithmetic::Exact, accelerator.get());
  const NamedFaults faults;
  std::set<std::string> kinds;
  for (const LayerSpec& spec : layers_of(smallest_models(GetParam()))) {
    SCOPED_TRACE(spec.name + " of kind " + spec.kind);
    kinds.insert(spec.kind);
    EXPECT_TRUE(LayerKinds().find(spec.kind)->on_accelerators);
    std::snprintf(running, sizeof running, "%s of kind %s", spec.name.c_str(), spec.kind.c_str());
    const std::vector<std::byte> expected =
        LayerBench(spec, GetParam(), on_host, host_memory()).run();
    EXPECT_TRUE(LayerBench(spec, GetParam(), on_device, accelerator->memory()).run() == expected);
  }
  EXPECT_TRUE(kinds.contains("add_rows") && kinds.contains("lora_linear") &&
              kinds.contains("convolution") && kinds.contains("contrastive_loss"));
  EXPECT_GE(kinds.size(), 30u);
}

INSTANTIATE_TEST_SUITE_P(EveryFormat, EveryLayerOnAccelerators,
                         ::testing::Values(DType::F32, DType::BF16),
                         [](const auto& info) { return std::string(to_string(info.param)); });

}  // namespace
}  // namespace cleave
