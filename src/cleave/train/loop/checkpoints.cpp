#include "cleave/train/loop/checkpoints.h"

#include <chrono>

#include "cleave/checkpoint/directory.h"
#include "cleave/train/save/own_part.h"
#include "cleave/train/save/saving.h"

namespace cleave::train {

Checkpoints::Checkpoints(const Job& job, Trainer& trainer, comm::Communicator& world)
    : job_(job),
      point_{.config = &job.config,
             .layout = &job.layout,
             .device = &trainer.device(),
             .held = trainer.held(),
             .world = &world,
             .shares_files = job.shares_files,
             .data = job.data_digest},
      saver_(point_) {}

void Checkpoints::save(std::int64_t step) {
  const auto start = std::chrono::steady_clock::now();
  if (job_.options.part && job_.exchange == nullptr) {
    save_part(point_, job_.keeps_part, step);
  } else {
    train::save(point_, step);
  }
  const std::chrono::duration<double> pause = std::chrono::steady_clock::now() - start;
  note(BackgroundSaver::Saved{step, pause.count()});
}

void Checkpoints::save_and_go_on(std::int64_t step) {
  // Threads that write do not talk to other devices, so what has to be sent is saved at once.
  if (!BackgroundSaver::has_room(job_.compiled) || !job_.shares_files) return save(step);
  // Should the one before not be done yet, disks are slower than training: that pause is its own.
  settle();
  saver_.begin(step);
}

void Checkpoints::note(const std::optional<BackgroundSaver::Saved>& saved) {
  if (!saved || !point_.is_first()) return;
  newest_ = checkpoint::checkpoint_path(
                std::filesystem::path(job_.config.train.out) / "checkpoints", saved->step)
                .string();
  job_.observer.on_saved(saved->step, newest_, saved->pause);
}

}  // namespace cleave::train
