#pragma once

#include <functional>
#include <memory>
#include <span>

#include "cleave/ops/compute.h"
#include "cleave/spec/layer_spec.h"
#include "cleave/tensor/memory.h"
#include "cleave/tensor/view.h"

namespace cleave {

/// A parameter in memory: what the layer computes with, and where its gradient is summed.
struct Parameter {
  View value;     ///< in the model's dtype
  View gradient;  ///< f32, the shape of value
};

/// Where the tensors of one call are. Only those that the spec declares for the pass are set.
struct LayerCall {
  View x;
  View y;
  ConstView skip;
  std::span<const View> reads;  ///< as declared, in that order
  ConstView dy;
  View dx;
  std::span<const View> read_gradients;   ///< I: [read]; empty where none is wanted
  ConstView add;                          ///< the gradient of a residual branch; see adds_branch
  std::span<const View> kept_by_forward;  ///< as declared, in that order
  std::span<const View> kept_by_input;    ///< as declared, in that order
  Write gradient = Write::Accumulate;     ///< W: Overwrite on the first microbatch of a sum
  bool ends_sum = false;                  ///< W: of the last microbatch of a sum
  std::int64_t gradient_shift = 0;        ///< W: bytes from the bound gradient to the one to add to
  std::int64_t sum_shift = 0;             ///< W: the same of sums that the layer keeps for itself
  float loss_scale = 1;                   ///< I of the loss: what one token's loss counts for
  std::int64_t position = 0;              ///< of the first token; more than 0 only when generating
  std::span<const View> collected;        ///< as declared, in that order
  std::int64_t first_row = 0;             ///< of x among the rows of collected[0]
  std::int64_t microbatch = 0;            ///< number among all of the run; 0 while evaluating
};

/// A layer computes what its spec declared, in three calls. It owns no memory: parameters and
/// constants are bound once, activations are handed to every call.
class Layer {
 public:
  explicit Layer(LayerSpec spec) : spec_(std::move(spec)) {}
  virtual ~Layer() = default;
  Layer(const Layer&) = delete;
  Layer& operator=(const Layer&) = delete;

  const LayerSpec& spec() const { return spec_; }

  /// In the order of spec().parameters, spec().constants, and spec().caches (generating) or
  /// spec().sums (training), all of them in `memory`. Fills the constants.
  void bind(std::span<const Parameter> parameters, std::span<const View> constants,
            std::span<const View> caches = {}, Memory& memory = host_memory()) {
    memory_ = &memory;
    parameters_ = {parameters.begin(), parameters.end()};
    constants_ = {constants.begin(), constants.end()};
    caches_ = {caches.begin(), caches.end()};
    fill_constants();
  }

  /// The value of a parameter is elsewhere from now on.
  virtual void move_value(int index, View value) { parameters_[index].value = value; }

  /// Once per step, after collected[0] came together and before any F: makes the rest of what is
  /// collected.
  virtual void begin_step(ops::Compute&, const LayerCall&) {}

  /// F: y from x; keeps what the spec declares.
  virtual void forward(ops::Compute& compute, const LayerCall& call) = 0;

  /// I: dx from dy; keeps what W still needs. Not called where no dx is wanted and nothing is kept.
  virtual void backward_input(ops::Compute& compute, const LayerCall& call) = 0;

  /// W: adds this microbatch's share to the gradients. Not called where nothing is trained.
  virtual void backward_weight(ops::Compute& compute, const LayerCall& call);

  /// B: I, then W at once. A layer that talks to other devices computes while its messages travel.
  virtual void backward(ops::Compute& compute, const LayerCall& call);

  /// Whether I adds `LayerCall::add` into dx in the same pass. Otherwise it is added afterwards.
  virtual bool adds_branch() const { return false; }

  /// Scratch that the calls need, exactly: what the kernels say, and the spec's own.
  virtual std::int64_t scratch_bytes(ops::Compute& compute) const;

 protected:
  virtual void fill_constants() {}

  const Parameter& parameter(int index) const { return parameters_[index]; }
  /// Whether W adds to the gradient of a parameter.
  bool is_trained(int index) const { return spec_.parameters[index].trainable; }
  View constant(int index) const { return constants_[index]; }
  View cache(int index) const { return caches_[index]; }
  /// Where all of these lie; what the host reads or writes of them goes through it.
  Memory& memory() const { return *memory_; }

  /// Where W adds to: one of several sums where a device runs several data shards.
  View gradient(int index, const LayerCall& call) const {
    const View bound = parameters_[index].gradient;
    return View(bound.bytes() + call.gradient_shift, bound.dtype(), bound.shape());
  }

  /// The largest scratch of the spec's products.
  std::int64_t product_scratch_bytes(ops::Compute& compute) const;

 private:
  LayerSpec spec_;
  Memory* memory_ = nullptr;
  std::vector<Parameter> parameters_;
  std::vector<View> constants_;
  std::vector<View> caches_;
};

/// Makes the layers of a model: LayerKinds, or what wraps them.
using LayerFactory = std::function<std::unique_ptr<Layer>(const LayerSpec&)>;

}  // namespace cleave
