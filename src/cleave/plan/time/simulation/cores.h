#pragma once

#include <deque>
#include <optional>
#include <vector>

#include "cleave/plan/time/simulation/timeline.h"

namespace cleave::plan::simulation {

/// Cores that devices share and queue for. A device keeps its core until it has nothing more to
/// compute.
class Cores {
 public:
  /// One computation, from its first moment on a core to its end.
  struct Computation {
    int device = 0;
    double begin = 0;
    double end = 0;
  };

  explicit Cores(int count) : count_(count) {}

  /// From `time` on `device` has `length` to compute. Right after the end of its last computation,
  /// before release(), it goes on with its core.
  void compute(int device, double time, double length);

  /// When the next computation ends; kNever if nothing is computed.
  double next() const;

  /// The computation that ends at next().
  Computation advance();

  /// The device whose computation advance() told of leaves its core, unless it computes again.
  void release();

 private:
  struct Queued {
    int device = 0;
    double length = 0;
  };

  int count_;
  std::vector<Computation> running_;
  std::deque<Queued> queue_;
  std::optional<Computation> ended_;  ///< still has its core
};

}  // namespace cleave::plan::simulation
