#include "cleave/train/evaluate/tap.h"

#include <memory>
#include <utility>

#include "cleave/tensor/bf16.h"

namespace cleave::train {
namespace {

void append_rows(ConstView x, Tapped& to) {
  const auto count = static_cast<std::size_t>(x.elements());
  const ConstView flat = x.reshaped({x.elements()});
  to.rows += x.dtype() == DType::I32 ? x.elements() : x.elements() / x.size(x.rank() - 1);
  ++to.calls;
  if (x.dtype() == DType::I32) {
    const auto* ids = flat.as<std::int32_t>();
    to.ids.insert(to.ids.end(), ids, ids + count);
  } else if (x.dtype() == DType::F32) {
    const auto* values = flat.as<float>();
    to.values.insert(to.values.end(), values, values + count);
  } else {
    for (std::size_t i = 0; i < count; ++i) to.values.push_back(to_float(flat.as<BFloat16>()[i]));
  }
}

/// Does what another layer does, and looks at its x.
class TappedLayer : public Layer {
 public:
  TappedLayer(std::unique_ptr<Layer> layer, Tapped& into)
      : Layer(layer->spec()), layer_(std::move(layer)), into_(into) {}

  void move_value(int index, View value) override { layer_->move_value(index, value); }
  void begin_step(ops::Compute& compute, const LayerCall& call) override {
    layer_->begin_step(compute, call);
  }
  void forward(ops::Compute& compute, const LayerCall& call) override {
    append_rows(call.x, into_);
    layer_->forward(compute, call);
  }
  void backward_input(ops::Compute& compute, const LayerCall& call) override {
    layer_->backward_input(compute, call);
  }
  std::int64_t scratch_bytes(ops::Compute& compute) const override {
    return layer_->scratch_bytes(compute);
  }

 protected:
  void fill_constants() override {
    std::vector<Parameter> parameters;
    for (int i = 0; i < std::ssize(spec().parameters); ++i) parameters.push_back(parameter(i));
    std::vector<View> constants;
    for (int i = 0; i < std::ssize(spec().constants); ++i) constants.push_back(constant(i));
    layer_->bind(parameters, constants, {}, memory());
  }

 private:
  std::unique_ptr<Layer> layer_;
  Tapped& into_;
};

}  // namespace

LayerFactory tapped(LayerFactory make, std::vector<Tap> taps) {
  return [make = std::move(make), taps = std::move(taps)](const LayerSpec& spec) {
    std::unique_ptr<Layer> layer = make(spec);
    for (const Tap& tap : taps) {
      if (tap.layer == spec.name)
        layer = std::make_unique<TappedLayer>(std::move(layer), *tap.into);
    }
    return layer;
  };
}

}  // namespace cleave::train
