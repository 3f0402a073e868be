#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "cleave/base/check.h"
#include "cleave/comm/communicator.h"
#include "cleave/engine/run/collections.h"
#include "cleave/engine/run/emulator.h"
#include "cleave/engine/run/host_messages.h"
#include "cleave/engine/run/linked_program.h"
#include "cleave/engine/run/messages.h"
#include "cleave/engine/run/microbatch_source.h"
#include "cleave/engine/run/moves.h"
#include "cleave/engine/run/posted_collectives.h"
#include "cleave/engine/run/rehearsal.h"
#include "cleave/engine/run/state_watch.h"
#include "cleave/engine/run/step_sums.h"
#include "cleave/engine/stage/gradient_sync.h"
#include "cleave/engine/stage/optimizer.h"
#include "cleave/engine/stage/parameter_sync.h"
#include "cleave/engine/stage/stage.h"
#include "cleave/ops/compute.h"
#include "cleave/plan/time/trace.h"

namespace cleave::engine {

/// What F of a microbatch came to.
struct MicrobatchSums {
  double loss = 0;  ///< of its samples, added up
  double hits = 0;  ///< samples whose class was found
};

/// What a step needs from outside.
struct StepInput {
  static constexpr int kFullest = -1;  ///< Parts::linked

  MicrobatchSource* source = nullptr;
  Optimizer* optimizer = nullptr;  ///< null: STEP leaves the weights alone
  float loss_scale = 1;            ///< what one token's loss counts for: 1 / tokens of the step
  Search search = Search::Off;
  bool stop = false;            ///< this device was asked to stop
  int pattern = kFullest;       ///< which of Parts::patterns runs
  StateWatch* watch = nullptr;  ///< null: nobody wants to know
  std::int64_t number = 0;      ///< of the step in the run; layers with chance draw by it
  std::span<MicrobatchSums> evaluated = {};  ///< [microbatch] while evaluating; else empty
};

/// Runs the instruction list of one device, and adds nothing of its own to it.
///
/// Allocates nothing inside a step. Records when every instruction ran and how long it waited.
class Executor {
 public:
  struct Parts {
    const schedule::Program* program = nullptr;
    int device = 0;
    LinkedProgram linked;
    LinkedProgram evaluation;
    std::vector<LinkedProgram> patterns = {};     ///< with more left out, in the same memory
    std::vector<LinkedProgram> evaluations = {};  ///< the same of `evaluation`
    int evaluated_at_once = 0;                    ///< microbatches of a replica in `evaluation`
    std::vector<Stage*> stages;                   ///< [stage], null: not on this device
    ShardFold fold;
    std::span<const std::string> tie_names;  ///< [tie] -> the parameter that owns the weight
    std::span<const OwnedPiece> pieces;      ///< of the whole model, sorted
    Arena* arena = nullptr;
    Arena* outside = nullptr;  ///< where OUT moves to; null: nothing moves
    Arena* host = nullptr;     ///< where messages and sums pass through; null: they do not
    ops::Compute* compute = nullptr;
    comm::Communicator* world = nullptr;  ///< all devices of the run
    comm::Communicator* place = nullptr;  ///< those at the same place; null: nobody else
    const Peers* peers = nullptr;         ///< whom it meets at other places
    bool counts_loss = true;              ///< the devices at a place have the same; one counts it
    bool alone_at_place = true;           ///< nobody holds it up inside what it computes
    Emulator* emulator = nullptr;         ///< does the compute; null: the stages do
  };

  explicit Executor(Parts parts);

  /// After an exception the next run begins afresh.
  StepResult run(const StepInput& input);

  /// Runs forward only. sums[replica · evaluated_at_once + m] becomes what microbatch m of `source`
  /// on that replica came to, on every device. `pattern`: which of Parts::evaluations runs.
  void evaluate(MicrobatchSource& source, std::span<MicrobatchSums> sums,
                int pattern = StepInput::kFullest);
  int evaluated_at_once() const { return parts_.evaluated_at_once; }

  /// What the plans of those programs say that have run: the end of their highest buffer.
  std::int64_t planned_bytes() const { return planned_bytes_; }
  std::int64_t planned_outside_bytes() const { return planned_outside_bytes_; }
  std::int64_t planned_host_bytes() const { return planned_host_bytes_; }

  /// Brings the values that replicas have shares of in line with the shares. All devices call it.
  void gather_values() { collectives_.refresh_all(parts_.linked, parts_.program->stages); }

  /// Brings the values that layers compute with in line with master weights that are outside
  /// between steps.
  void round_masters();

  /// Times F, I, W, B of the first `microbatches` in the order of a step, in its memory, without
  /// messages; seconds it took in all. Leaves garbage in the gradients.
  double rehearse_passes(const StepInput& input, int microbatches, Rehearsal& into);

  /// Times this device's share of NORM, and STEP. Leaves garbage in weights and optimizer state.
  void rehearse_update(const StepInput& input, Rehearsal& into);

  /// Times REDUCE, GATHER, TIE and REFRESH, with the other devices: all call it at the same time.
  void rehearse_exchanges(Rehearsal& into);

  /// A step without messages and collectives: the least that this device can take for its part.
  /// Leaves garbage in weights, gradients and optimizer state.
  void compute_alone(const StepInput& input);

  /// The last step of this device, instruction by instruction, in seconds since its start.
  std::span<const plan::Span> spans() const { return spans_; }

  /// The collectives of that step, but for the numbers that NORM makes known.
  std::vector<plan::CollectiveSpan> exchanges() const;

  /// Seconds of that step's compute and STEP in which the thread was at messages instead.
  double held_up() const { return std::chrono::duration<double>(held_up_).count(); }

 private:
  using Clock = std::chrono::steady_clock;

  void perform(const LinkedInstruction& entry, const StepInput& input);
  void release(const LinkedInstruction& entry);
  void execute(const LinkedInstruction& entry, const StepInput& input);
  void emulate(const schedule::Instruction& instruction, const StepInput& input);
  MicrobatchSums forward(const LinkedInstruction& entry, const SegmentPass& pass,
                         const StepInput& input);
  std::int64_t number_of(const SegmentPass& pass, const StepInput& input) const;
  using InputPlace = View (Stage::*)(const StageInput&, const SegmentPass&) const;
  /// Loads what F or R reads from the data, to the places where it has them.
  void load(const LinkedInstruction& entry, const SegmentPass& pass, MicrobatchSource& source,
            InputPlace place);
  void note(const StepInput& input, int microbatch, const MicrobatchSums& sums);
  void look_after_messages();
  void post(const LinkedInstruction& entry);
  void finish(const LinkedInstruction& entry, const StepInput& input);
  [[noreturn]] void throw_lost(const LinkedInstruction& entry, const DeviceLost& error) const;
  void reserve_room();
  void take_lasting();
  const LinkedProgram& begin(const LinkedProgram& program);
  std::vector<const LinkedProgram*> programs() const;
  void finish_move(const LinkedInstruction& entry, const StepInput& input);
  void finish_message(const LinkedInstruction& entry, const StepInput& input);
  void record_move(const StepInput& input, schedule::Instruction wait, schedule::Op op,
                   const Mover::Times& times);
  bool passes_through_host() const;
  void move_message(const LinkedInstruction& entry);
  static HostMessages host_messages_of(const Parts& parts);
  void rehearse_move(const LinkedInstruction& entry, Rehearsal& into);
  void rehearse_message(const LinkedInstruction& entry, Rehearsal& into);
  void rehearse_state_moves(Rehearsal& into);
  void norm(const StepInput& input);
  void step(const schedule::Instruction& instruction, const StepInput& input);
  double time_of(const LinkedInstruction& entry, const StepInput& input);
  bool has_both_ends(const schedule::Instruction& tie) const;
  void place_ungathered_values();
  double now() const;
  Clock::duration spent_at_messages() const;

  Parts parts_;
  GradientSync sync_;
  std::vector<comm::Communicator*> replicas_;  ///< [stage]
  StepSums sums_;
  ParameterSync values_;
  Collections collections_;
  PostedCollectives collectives_;
  Messages messages_;
  Moves moves_;
  HostMessages host_messages_;
  int replica_ = 0;       ///< the first that the device stands for
  int microbatches_ = 0;  ///< of all of them
  std::vector<plan::Span> spans_;
  StepResult result_;
  bool interrupted_ = false;  ///< the last run threw
  std::int64_t planned_bytes_ = 0;
  std::int64_t planned_outside_bytes_ = 0;
  std::int64_t planned_host_bytes_ = 0;
  Clock::time_point start_;
  Clock::duration held_up_ = {};
};

}  // namespace cleave::engine
