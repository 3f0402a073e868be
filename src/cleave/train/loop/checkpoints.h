#pragma once

#include <optional>
#include <string>

#include "cleave/engine/run/device.h"
#include "cleave/train/loop/job.h"
#include "cleave/train/save/background_saver.h"

namespace cleave::train {

/// One device's part in the checkpoints of a run. All devices call everything at the same steps;
/// the first of them tells the observer.
class Checkpoints {
 public:
  /// All of it must outlive this.
  Checkpoints(const Job& job, Trainer& trainer, comm::Communicator& world);

  /// Saves the state after `step`, to the end.
  void save(std::int64_t step);

  /// The same, where there is room for a copy while training goes on.
  void save_and_go_on(std::int64_t step);

  /// Notes what has been saved meanwhile.
  void look() { note(saver_.advance()); }

  /// Waits for what is being saved.
  void settle() { note(saver_.advance(BackgroundSaver::Wait::UntilSaved)); }

  /// The directory of the newest, on the first device; empty before there is one.
  const std::string& newest() const { return newest_; }

 private:
  void note(const std::optional<BackgroundSaver::Saved>& saved);

  const Job& job_;
  SavePoint point_;
  BackgroundSaver saver_;
  std::string newest_;
};

}  // namespace cleave::train
