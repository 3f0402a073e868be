#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "cleave/engine/stage/stage_parameters.h"
#include "cleave/ops/compute.h"

namespace cleave::engine {

/// Numbers of a config that updates follow. An optimizer reads those whose keys its row names.
struct Hyper {
  std::array<double, 2> betas = {0.9, 0.95};
  double momentum = 0;
  double weight_decay = 0.1;

  friend bool operator==(const Hyper&, const Hyper&) = default;
};

/// What an update of one step goes by.
struct UpdateStep {
  Hyper hyper;
  std::int64_t step = 0;  ///< counted from 0
  double lr = 0;
  double gradient_scale = 1;  ///< what clipping multiplies gradients by
};

/// One kind of optimizer: a row of the table, or one of the user's own. The layout of state, what
/// replicas share, the memory plan and checkpoints all follow from its slots.
struct OptimizerKind {
  std::string name;
  /// Names of the tensors that it keeps beside a parameter: f32, of the parameter's shape, zero
  /// before the first step, in checkpoints as `parameter.slot`.
  std::function<std::vector<std::string>(const ParameterSpec&, const Hyper&)> slots;
  /// Updates what a device has of a parameter: any range of its elements, or whole pieces.
  std::function<void(ops::Compute&, const ParameterState&, const UpdateStep&)> update;
  std::vector<std::string> keys = {};  ///< of a config: what of Hyper it reads
  double momentum = 0;                 ///< what it takes where the config says nothing
  /// Whether it updates a parameter piece by piece, each as one: replicas then share whole pieces,
  /// and tensor shards must not cut them. Empty: it never does.
  std::function<bool(const ParameterSpec&)> whole = {};
  /// Bytes of kernel scratch that the update of a parameter needs. Empty: none.
  std::function<std::int64_t(ops::Compute&, const ParameterSpec&)> scratch = {};
  /// Whether accelerators can run it: if it computes with ops alone and reads no element itself.
  bool on_accelerators = false;
};

/// All that cleave has.
std::span<const OptimizerKind> optimizers();

/// The one called `name`. Throws UserError, with all names, if there is none.
const OptimizerKind& find_optimizer(std::string_view name);

/// Gives every parameter of `segments` the slots that `optimizer` keeps beside it, and says whether
/// its pieces must stay whole. Those that are not trained have none.
void give_slots(std::span<SegmentSpec> segments, const OptimizerKind& optimizer,
                const Hyper& hyper);

/// What STEP does to a parameter.
class Optimizer {
 public:
  virtual ~Optimizer() = default;

  /// The largest gradient norm; larger ones are scaled down to it. 0: no clipping.
  virtual double clip() const = 0;

  /// Updates one parameter from its gradient times `gradient_scale`.
  virtual void update(ops::Compute& compute, const ParameterState& parameter,
                      double gradient_scale) = 0;
};

}  // namespace cleave::engine
