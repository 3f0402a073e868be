#include "cleave/train/loop/first_state.h"

#include "cleave/train/loop/state_in_memory.h"
#include "cleave/train/save/adapters.h"
#include "cleave/train/save/saving.h"

namespace cleave::train {
namespace {

void begin_afresh(const Job& job, Trainer& trainer) {
  trainer.initialise();
  if (!job.start.init_from.empty()) {
    const checkpoint::CheckpointReader reader(job.start.init_from, checkpoint::Load::WeightsOnly);
    load(reader, layout_in(reader, job.layout), trainer.device());
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

void give_first_state(const Job& job, Trainer& trainer, comm::Communicator& world) {
  const Start& start = job.start;
  if (job.moved) {
    take_state(job, trainer, world);
  } else if (start.resume_from.empty()) {
    begin_afresh(job, trainer);
  } else {
    const checkpoint::CheckpointReader reader(start.resume_from);
    load(reader, job.layout, trainer.device());
    trainer.continue_after(reader.state().step);
    if (world.rank() == 0)
      job.observer.on_resumed(reader.state().step, start.resume_from.string(), start.changed);
  }
}

}  // namespace cleave::train
