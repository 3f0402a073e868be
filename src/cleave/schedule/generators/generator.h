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

  void forward(int device, int chunk, int microbatch);
  void input(int device, int chunk, int microbatch);     ///< I
  void weight(int device, int chunk, int microbatch);    ///< W
  void backward(int device, int chunk, int microbatch);  ///< B
  void emit(Op op, int device, int chunk, int microbatch);

  /// Stages on the longest path that follows a device's first stage: on a chain, all after it.
  int after(int device) const { return after_[device]; }
  int longest() const { return std::ranges::max(after_); }

  Program finish() && { return std::move(program_); }

 private:
  int stage_of(int device, int chunk) const;

  Fold fold_;
  Program program_;
  std::vector<int> after_;  ///< [stage]
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
