#pragma once

#include <cstdint>
#include <future>
#include <optional>
#include <span>
#include <vector>

#include "cleave/train/save/saving.h"

namespace cleave::train {

/// Saves a copy of the state while training goes on. Threads write files, one per device; only the
/// device's own thread talks to other devices, so they agree between steps on what comes next:
///
///   Prepare (first device) -> Write (all) -> Commit (first device)
///
/// All devices make the same calls in the same order.
class BackgroundSaver {
 public:
  struct Saved {
    std::int64_t step = 0;
    double pause = 0;  ///< seconds that training stood still
  };
  enum class Wait : std::uint8_t { No, UntilSaved };

  explicit BackgroundSaver(const SavePoint& at) : at_(at) {}

  /// Whether there is room for a copy: the same answer on all devices.
  static bool has_room(const engine::CompiledStep& compiled) {
    return !compiled.staging_bytes.empty();
  }

  /// Copies the state after `step` updates and begins to save it. Nothing else may be under way.
  void begin(std::int64_t step);

  /// Call it after every step: says which checkpoint has become complete. Throws what saving threw.
  std::optional<Saved> advance(Wait wait = Wait::No);

 private:
  enum class Phase : std::uint8_t { Idle, Prepare, Write, Commit };

  /// Consecutive elements of a tensor, in the copy.
  struct Run {
    checkpoint::Part part;
    std::size_t parameter;
    std::int64_t first;
    std::span<const float> elements;
  };

  void start(Phase phase);
  void work(Phase phase) const;
  bool all_ready();

  SavePoint at_;
  Phase phase_ = Phase::Idle;
  Saved current_;
  std::vector<Run> runs_;
  std::future<void> work_;  ///< its destructor waits, so runs_ outlive the thread
};

}  // namespace cleave::train
