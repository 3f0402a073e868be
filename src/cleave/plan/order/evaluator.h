#pragma once

#include <limits>
#include <vector>

#include "cleave/plan/order/problem.h"

namespace cleave::plan::ordering {

/// How long orders take: the simulator's arithmetic for compute-only programs, without its spans,
/// reusing its memory from call to call.
class Evaluator {
 public:
  explicit Evaluator(const Problem& problem);

  /// False if the orders cannot finish, or once `score` is known to exceed `worst`.
  bool run(const Orders& orders, double worst = std::numeric_limits<double>::infinity());

  double makespan() const { return makespan_; }
  double cost() const { return cost_; }  ///< max over devices of last end - first start

  /// What the search minimises: the makespan, a little of the cost and of when each device ends, so
  /// that progress off the critical path counts before it shows, and much of what makespan and cost
  /// exceed their goals by.
  double score() const { return score_; }

  /// An instruction: a device and a place in its order.
  struct Position {
    int device = 0;
    int at = 0;
  };

  /// Instructions from the last end back to one that waited for nobody, each bound by the next;
  /// while the cost is above its goal, from the end of the device that it comes from. Valid after a
  /// run that returned true.
  void critical_path(const Orders& orders, std::vector<Position>& path) const;

 private:
  bool advance(int device, const std::vector<int>& order, double worst);
  void finish();
  int critical_device() const;

  const Problem& problem_;
  std::vector<std::vector<int>> readers_;  // [lane] -> devices with a lane that needs it
  std::vector<double> work_;               // [device]

  std::vector<double> end_;    // [lane * microbatches + microbatch]
  std::vector<int> bound_by_;  // same: the one whose message set the start, -1: the device itself
  std::vector<int> at_;        // same: place in the order of its device
  std::vector<int> done_;      // [lane]
  std::vector<int> next_;      // [device]
  std::vector<double> first_start_;
  std::vector<double> free_at_;
  std::vector<double> left_;    // [device] work not yet started
  std::vector<int> waits_for_;  // [device] lane, -1: none
  std::vector<int> runnable_;
  double makespan_ = 0;
  double cost_ = 0;
  double score_ = 0;
};

}  // namespace cleave::plan::ordering
