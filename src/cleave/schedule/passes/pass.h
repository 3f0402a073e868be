#pragma once

#include "cleave/schedule/passes.h"

namespace cleave::schedule {

/// Each is defined in the file of its name.
Program replicate(Program program, const LowerOptions& options);
Program add_recompute(Program program, const LowerOptions& options);
Program add_communication(Program program, const LowerOptions& options);
Program split_segments(Program program, const LowerOptions& options);
Program collect_steps(Program program, const LowerOptions& options);
Program shard_parameters(Program program, const LowerOptions& options);
Program add_gradients(Program program, const LowerOptions& options);
Program add_moves(Program program, const LowerOptions& options);
Program add_state_moves(Program program, const LowerOptions& options);
Program pass_through_host(Program program, const LowerOptions& options);

/// [edge] -> unheard_windows, or twice or four times that, if the order in which messages are read
/// needs it. 0: no bound.
std::vector<int> send_windows(const Program& program, const Topology& topology);

/// Where the F and the I (or B) of every stage and microbatch stand in the list of their device.
/// Throws UserError if one is missing, doubled, out of range or on another stage's device.
class ActionIndex {
 public:
  explicit ActionIndex(const Program& program);

  int forward(int stage, const OfReplica& of) const { return forward_[slot(stage, of)]; }
  int backward(int stage, const OfReplica& of) const { return backward_[slot(stage, of)]; }

 private:
  void check_complete(const Program& program, const Topology& topology) const;
  std::size_t slot(int stage, const OfReplica& of) const {
    return (static_cast<std::size_t>(of.replica) * stages_ + stage) * microbatches_ + of.microbatch;
  }

  std::size_t stages_;
  std::size_t microbatches_;
  std::vector<int> forward_;
  std::vector<int> backward_;
};

}  // namespace cleave::schedule
