#pragma once

#include <cstdint>
#include <set>
#include <string>
#include <string_view>
#include <utility>

#include "cleave/engine/stage/optimizer.h"
#include "cleave/train/config/config.h"

namespace cleave::train {

/// What `train` says about updates, and where it says nothing what their kind takes by itself.
engine::Hyper hyper_of(const TrainConfig& train, const engine::OptimizerKind& kind);

/// The optimizer that `config` names. Throws UserError if there is none of that name, or if the
/// config sets a key that only other optimizers read.
const engine::OptimizerKind& optimizer_of(const Config& config);

/// The same as the server of rounds has it, whose clients train elsewhere: it updates nothing, and
/// its slots are those of the outer rule.
const engine::OptimizerKind& server_optimizer(const Config& config);

/// The optimizer of a run: one kind of update, at the learning rate of each step.
class RunOptimizer : public engine::Optimizer {
 public:
  /// Updates as `train.optimizer` names them.
  explicit RunOptimizer(const TrainConfig& train)
      : RunOptimizer(train, engine::find_optimizer(train.optimizer)) {}

  /// Updates of any kind, of the user's own too; `kind` must outlive it.
  RunOptimizer(const TrainConfig& train, const engine::OptimizerKind& kind)
      : train_(train), kind_(&kind), at_{.hyper = hyper_of(train, kind)} {}

  /// Before the step `step`, counted from 0.
  void begin_step(std::int64_t step) { begin_step(step, step); }

  /// The same where its slots are of other age than the learning rate: `taken` updates; and those
  /// of parameters that clients share `shared` of them.
  void begin_step(std::int64_t step, std::int64_t taken, std::int64_t shared = 0);

  /// The names of parameters whose slots are of another age than the others'.
  void set_shared(std::set<std::string> parameters) { shared_ = std::move(parameters); }

  /// From now on gradients get `strength` times what separates weights from their slot `anchor`.
  void hold_to(std::string_view anchor, double strength) {
    anchor_ = anchor;
    strength_ = strength;
  }

  double lr() const { return at_.lr; }
  double clip() const override { return train_.clip; }
  void update(ops::Compute& compute, const engine::ParameterState& parameter,
              double gradient_scale) override;

 private:
  TrainConfig train_;
  const engine::OptimizerKind* kind_;
  engine::UpdateStep at_;
  std::int64_t taken_ = 0;
  std::int64_t taken_of_shared_ = 0;
  std::set<std::string> shared_;
  std::string_view anchor_;
  double strength_ = 0;
};

}  // namespace cleave::train
