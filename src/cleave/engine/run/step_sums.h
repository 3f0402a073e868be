#pragma once

#include <span>
#include <vector>

#include "cleave/comm/communicator.h"
#include "cleave/engine/stage/gradient_norm.h"
#include "cleave/engine/stage/shard_fold.h"
#include "cleave/engine/stage/stage.h"
#include "cleave/ops/compute.h"

namespace cleave::engine {

/// What a step gives back, the same on every device.
struct StepResult {
  double loss = 0;           ///< mean over the tokens of the step
  double gradient_norm = 0;  ///< before clipping
  bool stop = false;         ///< some device was asked to stop
};

/// What the devices of a step add up and make known to each other at NORM: losses, squares of
/// gradients, and whether one of them was asked to stop.
///
/// Every number comes from one device and the others add zero to it, so that no order of summation
/// can change it; what then is added up is added up by each device in the same order.
class StepSums {
 public:
  struct Parts {
    const schedule::Program* program = nullptr;
    int device = 0;
    std::span<const OwnedPiece> pieces;             ///< of the whole model, sorted
    std::span<Stage* const> stages;                 ///< [stage], null: not on this device
    std::span<comm::Communicator* const> replicas;  ///< [stage]
    ShardFold fold;
    comm::Communicator* world = nullptr;  ///< all devices of the run
  };

  explicit StepSums(const Parts& parts);
  StepSums(const StepSums&) = delete;  ///< it has spans into itself

  /// Forgets the step before.
  void begin_step();

  /// `microbatch` is one of this device's.
  void add_loss(int microbatch, double loss) { losses_[microbatch] += loss; }

  /// This device's share of the squares, without asking others: what NORM computes.
  void square(ops::Compute& compute) { norm_.square(compute); }

  /// Squares the gradients. Where replicas share them each squares its own, and they exchange the
  /// sums of blocks.
  void square_gradients(ops::Compute& compute);

  /// Brings the numbers of all devices together. Throws NonFinite.
  StepResult combine(float loss_scale, bool stop);

 private:
  double total_loss();

  Parts parts_;
  GradientNorm norm_;
  int replica_ = 0;             ///< the first that the device stands for
  std::vector<double> shared_;  ///< as NormNumbers has them
  std::span<double> losses_;    ///< [microbatch of this device] in `shared_`
  std::span<double> squares_;   ///< [piece] in `shared_`
};

}  // namespace cleave::engine
