#include "cleave/train/loop/first_state.h"

#include <chrono>

#include "cleave/train/loop/state_in_memory.h"
#include "cleave/train/save/adapters.h"
#include "cleave/train/save/saving.h"

namespace cleave::train {
namespace {

using Clock = std::chrono::steady_clock;

void begin_afresh(const Job& job, Trainer& trainer) {
  if (job.start.init_from.empty()) {
    trainer.initialise();
  } else {
    const checkpoint::CheckpointReader reader(job.start.init_from, checkpoint::Load::WeightsOnly);
    const checkpoint::CheckpointLayout loaded = layout_in(reader, job.layout);
    // Drawing a billion numbers takes longer than reading them.
    trainer.initialise_some([&](const std::string& tensor) { return !is_in(loaded, tensor); });
    load(reader, loaded, trainer.device());
  }
  load_adapters(job.config, job.layout, trainer.device());
}

void take_state(const Job& job, Trainer& trainer, comm::Communicator& world) {
  const MovedState& moved = *job.moved;
  if (has_frozen(job.compiled.model)) begin_afresh(job, trainer);
  comm::Communicator& everyone = job.options.everyone != nullptr ? *job.options.everyone : world;
  move_state(everyone, moved, *job.options.kept,
             image_of(trainer.device(), job.layout, Whose::OwnAndTied));
  trainer.device().refresh_values();
  trainer.continue_after(moved.step);
  if (world.rank() == 0) job.observer.on_resumed(moved.step, "the memory of its devices", "");
}

}  // namespace

std::optional<double> give_first_state(const Job& job, Trainer& trainer,
                                       comm::Communicator& world) {
  const Clock::time_point begin = Clock::now();
  const Start& start = job.start;
  if (job.moved) {
    take_state(job, trainer, world);
  } else if (start.resume_from.empty()) {
    begin_afresh(job, trainer);
  } else {
    const checkpoint::CheckpointReader reader(start.resume_from);
    load(reader, job.layout, trainer.device());
    if (trainer.held() != nullptr) load(reader, job.layout, *trainer.held());
    trainer.continue_after(reader.state().step);
    if (world.rank() == 0)
      job.observer.on_resumed(reader.state().step, start.resume_from.string(), start.changed);
  }
  const std::filesystem::path& from = start.init_from.empty() ? start.resume_from : start.init_from;
  if (job.moved || from.empty()) return std::nullopt;
  double seconds = std::chrono::duration<double>(Clock::now() - begin).count();
  world.combine({&seconds, 1}, comm::Combine::Max);
  if (world.rank() == 0) job.observer.on_loaded(from, seconds);
  return seconds;
}

}  // namespace cleave::train
