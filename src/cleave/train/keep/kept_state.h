#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "cleave/tensor/arena.h"
#include "cleave/train/keep/state_image.h"

namespace cleave::train {

/// The state after some step, or a share of it.
struct StateVersion {
  std::int64_t step = 0;
  StateImage image;
};

/// What a process still has of the state when a plan has ended: its own share, what it was before
/// the last update, and copies of others'. It lasts until the next plan has it all again.
class KeptState {
 public:
  /// `arena`: the memory that `versions` lie in; what else was in it is given back to the system.
  void keep(std::shared_ptr<Arena> arena, std::vector<StateVersion> versions);
  void forget();

  /// Forgets if that and `planned` bytes more are above `budget`.
  void make_room_for(std::int64_t planned, std::int64_t budget);

  const std::vector<StateVersion>& versions() const { return versions_; }

 private:
  std::vector<std::shared_ptr<Arena>> arenas_;
  std::vector<StateVersion> versions_;
};

}  // namespace cleave::train
