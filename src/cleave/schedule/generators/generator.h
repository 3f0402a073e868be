#pragma once

#include <algorithm>
#include <string_view>
#include <utility>

#include "cleave/schedule/generators.h"

namespace cleave::schedule {

/// A program under construction: one list per device, compute only. Actions on microbatches that do
/// not exist are left out, so a generator may write whole rounds.
class Draft {
 public:
  Draft(std::string_view schedule, const PipelineShape& shape, Fold fold);

  void forward(DeviceId device, int chunk, MicrobatchId microbatch);
  void input(DeviceId device, int chunk, MicrobatchId microbatch);     ///< I
  void weight(DeviceId device, int chunk, MicrobatchId microbatch);    ///< W
  void backward(DeviceId device, int chunk, MicrobatchId microbatch);  ///< B
  void emit(Op op, DeviceId device, int chunk, MicrobatchId microbatch);

  /// How many microbatches a device has: those of all replicas that it stands for, by turns.
  int microbatches(int device) const { return stands_for_[device] * program_.microbatches; }

  /// Stages on the longest path that follows a device's first stage: on a chain, all after it.
  /// Where stages have different numbers of replicas, devices on it for each device of this stage.
  int after(int device) const { return of_each(DeviceId{device}, after_[device]) + further_; }
  /// The same of those before it, on the longest path of all.
  int before(int device) const {
    return of_each(DeviceId{device}, std::ranges::max(after_) - after_[device]);
  }

  /// Copies the lists for the replicas of their stages.
  Program finish() &&;

 private:
  int stage_of(DeviceId device, int chunk) const;
  /// A number of devices, divided among the replicas of a device's stage.
  int of_each(DeviceId device, int devices) const {
    return (devices + replicas_[device] - 1) / replicas_[device];
  }

  Fold fold_;
  Program program_;              ///< of one replica until it is finished
  std::vector<int> after_;       ///< [stage]
  std::vector<int> replicas_;    ///< [device]
  std::vector<int> stands_for_;  ///< [device] replicas of the whole
  int further_ = 0;
};

/// Each is defined in the file of its name. `shape` is valid and its chunks are set.
Program gpipe(const PipelineShape& shape);
Program one_f_one_b(const PipelineShape& shape);
Program interleaved(const PipelineShape& shape);
Program interleaved_lean(const PipelineShape& shape);
Program looped_bfs(const PipelineShape& shape);
Program zb_h1(const PipelineShape& shape);
Program zb_h2(const PipelineShape& shape);
Program zbv(const PipelineShape& shape);
Program v_half(const PipelineShape& shape);
Program v_min(const PipelineShape& shape);
Program dualpipev(const PipelineShape& shape);

}  // namespace cleave::schedule
