#pragma once

#include <cstdint>

#include "cleave/engine/stage/optimizer.h"
#include "cleave/train/config/config.h"

namespace cleave::train {

/// AdamW with decay on matrices only, as torch.optim.AdamW computes it.
class AdamW : public engine::Optimizer {
 public:
  explicit AdamW(const TrainConfig& train) : train_(train) {}

  /// Before the step `step`, counted from 0.
  void begin_step(std::int64_t step);

  double lr() const { return lr_; }
  double clip() const override { return train_.clip; }
  void update(ops::Compute& compute, const engine::ParameterState& parameter,
              double gradient_scale) override;

 private:
  TrainConfig train_;
  std::int64_t step_ = 0;
  double lr_ = 0;
};

}  // namespace cleave::train
