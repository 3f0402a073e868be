#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "cleave/base/check.h"
#include "cleave/data/dataset.h"
#include "cleave/engine/compile/compile.h"
#include "cleave/engine/run/device.h"
#include "cleave/train/config/config.h"
#include "cleave/train/step/batch_source.h"
#include "cleave/train/step/dealing.h"
#include "cleave/train/step/example_steps.h"
#include "cleave/train/step/rounds.h"
#include "cleave/train/step/run_optimizer.h"
#include "cleave/train/step/validation.h"

namespace cleave::engine {
struct Profile;
}

namespace cleave::train {

/// What one step came to.
struct StepReport {
  std::int64_t step = 0;  ///< counted from 1: how many are done
  double loss = 0;
  double gradient_norm = 0;
  double lr = 0;
  double seconds = 0;
  double wait = 0;                ///< seconds of it that this device was at messages
  double epochs = 0;              ///< through the training data, since step 0
  bool evaluates = false;         ///< a validation follows
  bool stop = false;              ///< some device was asked to stop
  bool skipped = false;           ///< its numbers were no numbers, and nothing was updated
  std::int64_t local_steps = 1;   ///< of all clients, where it was a round of them
  std::int64_t participants = 0;  ///< clients of the round
  std::int64_t absent = 0;        ///< clients that did not answer
};

/// The model of `config` in microbatches, as data; for those that have `images`, or as many as
/// there is room for.
Graph model_of(const Config& config, std::int64_t images = engine::MicrobatchSource::kAll);

/// Sets what of `inputs` decides which programs and kernels `options` is compiled for.
void set_inputs(const Config& config, const DataInputs& inputs, engine::CompileOptions& options);

/// What `config` says about the layout.
engine::CompileOptions compile_options(const Config& config);

/// Adds room for copies of state: those that train.copies asks for, and the one that is saved while
/// training goes on, if the run saves before its end and the budgets of `step` leave so much.
void plan_copies(const Config& config, engine::CompiledStep& step);

/// Partition, programs, memory plan and proof for `config`. `inputs`: which steps the data bring;
/// by default all microbatches have all inputs.
engine::CompiledStep compile_step(const Config& config, const DataInputs& inputs = {});

/// The training loop of one device. All devices of a run do the same steps in the same order.
class Trainer {
 public:
  /// All must outlive the trainer.
  Trainer(const Config& config, const TrainingData& data, const engine::CompiledStep& compiled,
          int device, comm::Communicator& world);

  /// What everything in a step takes, measured with random tokens; all devices together, before the
  /// weights are set. `at_once`: how many devices can compute at the same time.
  engine::Profile profile(double at_once);

  /// Fresh weights, step 0.
  void initialise();

  /// Step 0 with fresh weights in the tensors that `wanted` says yes to; whoever writes the others
  /// has the device refresh its values afterwards.
  void initialise_some(const std::function<bool(const std::string&)>& wanted);

  /// One optimizer update. If a number is no number any more the weights stay as they were: the
  /// step is left out, as often as train.skip_nonfinite allows, and then it throws NonFinite, with
  /// the step and where it began. `stop`: this device was asked to; all devices learn of it.
  StepReport step(bool stop = false);

  /// Where clients are processes of their own: what the server made of a round, on all of them. It
  /// saves that before; everybody else asks for it right after the step.
  void share_round(StepReport& step);

  /// Hears of every update from now on, but for those within rounds of clients.
  void set_watch(engine::StateWatch* watch) { watch_ = watch; }

  /// As if `steps` steps had been done: weights and moments come from a checkpoint.
  void continue_after(std::int64_t steps);

  /// Where clients are processes of their own: all go on from where the server is.
  void share_start();

  /// Which of CompiledStep::patterns the last step ran.
  int pattern() const { return pattern_; }

  /// What this device sends in a step as the last one was, by its program and its microbatches.
  comm::Sent planned_sent() const;

  /// What this device sent in the last step.
  const comm::Sent& sent() const { return sent_; }

  /// How many steps are done; also the position in the data.
  std::int64_t steps_done() const { return steps_done_; }

  /// Over the held-out samples, as many as whole microbatches have; nothing if there are none.
  std::optional<Evaluation> evaluate();
  std::int64_t evaluated_sequences() const { return validation_ ? validation_->sequences() : 0; }

  engine::Device& device() { return device_; }

  /// The clients' layers, on a server at whose own they take turns; null elsewhere.
  engine::Device* held() { return held_ ? &held_->device() : nullptr; }

  /// What clients sent of this device's tensors in rounds.
  std::int64_t client_bytes() const { return rounds_ ? rounds_->sent_bytes() : 0; }

 private:
  StepReport play_round(bool stop);
  StepReport leave_out_step();
  [[noreturn]] void throw_where_it_began(engine::StepInput input, const NonFinite& error);
  ClientResult train_client(const ClientTurn& turn, bool stop);
  engine::StepResult train_batch(const ClientTurn& turn, std::int64_t step, bool stop);

  const Config* config_;
  const engine::CompiledStep* compiled_;
  comm::Communicator& world_;
  engine::Device device_;
  RunOptimizer optimizer_;
  const ClientData* clients_;             ///< null: data are nobody's in particular
  std::optional<HeldLayers> held_;        ///< of clients that are apart, between their turns
  std::optional<Rounds> rounds_;          ///< where what they train is averaged
  std::optional<ExampleSteps> examples_;  ///< where these are clipped one by one
  BatchSource source_;
  std::optional<Validation> validation_;
  engine::StateWatch* watch_ = nullptr;
  std::int64_t steps_done_ = 0;
  std::int64_t skipped_ = 0;  // steps left out
  int pattern_ = engine::StepInput::kFullest;
  comm::Sent sent_;
};

}  // namespace cleave::train
