#pragma once

#include "cleave/engine/stage/stage.h"
#include "cleave/ops/compute.h"

namespace cleave::engine {

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
