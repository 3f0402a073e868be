#pragma once

#include <deque>
#include <optional>
#include <vector>

#include "cleave/plan/simulation/timeline.h"

namespace cleave::plan::simulation {

/// Cores that devices share and queue for. A device keeps its core until it has nothing more to
/// compute, or until its slice is over and others wait for one.
class Cores {
 public:
  /// One computation, from its first moment on a core to its end.
  struct Ended {
    int device = 0;
    double begin = 0;
    double end = 0;
  };

  Cores(int count, double slice) : count_(count), slice_(slice) {}

  /// `device` has `length` to compute. Right behind the end of its last computation, before
  /// release(), it goes on with its core and its slice.
  void compute(int device, double length);

  /// When the next computation or slice ends; kNever if nothing is computed.
  double next() const;

  /// All cores compute until `time`, which is not beyond next().
  void run_until(double time);

  /// At next(): the computation that ends there; nothing if it is a slice.
  std::optional<Ended> advance();

  /// The device whose computation advance() told of leaves its core, unless it computes again.
  void release();

 private:
  struct Computing {
    int device = 0;
    double left = 0;
    double begin = kNotYet;
    double used = 0;  ///< of its slice
  };

  double horizon(const Computing& each) const;
  std::vector<Computing>::const_iterator first() const;
  void fill();

  int count_;
  double slice_;
  std::vector<Computing> running_;
  std::deque<Computing> ready_;
  std::optional<Computing> ended_;  ///< still has its core
  double now_ = 0;
};

}  // namespace cleave::plan::simulation
