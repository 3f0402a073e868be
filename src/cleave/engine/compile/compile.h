#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "cleave/engine/stage/gradient_norm.h"
#include "cleave/engine/stage/gradient_sync.h"
#include "cleave/engine/stage/optimizer.h"
#include "cleave/engine/stage/stage.h"
#include "cleave/layers/layer_kinds.h"
#include "cleave/plan/memory/memory.h"
#include "cleave/plan/time/costs.h"
#include "cleave/plan/tune/layout.h"
#include "cleave/schedule/passes.h"
#include "cleave/schedule/program.h"
#include "cleave/spec/graph.h"
#include "cleave/spec/mesh.h"

namespace cleave::engine {

using plan::Layout;

/// What a model is compiled for. To evaluate alone nothing is trained: there are no gradients, no
/// slots, and memory is what F of the microbatches at once needs. To hold state for others, who
/// train it, there are weights and slots, no gradients, and the program of evaluating.
enum class Purpose : std::uint8_t { Train, Evaluate, Hold };

/// In how many microbatches of a step, over all replicas, samples have a model's optional inputs,
/// and how many steps are like that.
struct InputCount {
  int microbatches = 0;
  std::int64_t steps = 0;
};

/// The same of what is evaluated: those that have them come first.
struct EvaluatedInputs {
  std::int64_t with = 0;
  std::int64_t microbatches = 0;
};

/// The model for microbatches in which its optional inputs have `items` of what they have room for
/// more of: the same segments and edges, with fewer rows.
struct FewerItems {
  std::int64_t items = 0;
  Graph model;
};

struct CompileOptions {
  Layout layout;
  Purpose purpose = Purpose::Train;
  int microbatches = 1;   ///< per replica
  int data_shards = 0;    ///< of the logical grid; 0: one per replica of what has the most
  int tensor_shards = 0;  ///< of the logical grid; 0: one per device of the tensor axis
  /// Of the modules before the last one; 0: `tensor_shards`, or one per device of theirs.
  int encoder_tensor_shards = 0;
  int threads = 1;  ///< per device
  /// What steps the data bring, ascending; empty: all microbatches have all inputs.
  std::vector<InputCount> optional_inputs = {};
  EvaluatedInputs evaluated_inputs = {};
  /// How many items the data bring where there is room for more (MicrobatchSource::items),
  /// ascending; a microbatch with fewer than the first is filled up to it. Empty: microbatches are
  /// computed with all that there is room for, as memory is planned for.
  std::vector<FewerItems> fewer = {};
  std::int64_t usual_items = SegmentPass::kAllItems;  ///< of the run's microbatches
  std::vector<std::string> device_kinds;  ///< [device of the run], or one for all; empty: "cpu"
  std::string spill;           ///< directory for what moves out; empty: the host's memory
  bool state_may_move = true;  ///< false: somebody reads optimizer state between steps
  int moves_beside = 2;        ///< as schedule::LowerOptions has it; 1 where that does not fit
  ops::Arithmetic arithmetic = ops::Arithmetic::Fastest;      ///< of every device
  std::vector<std::int64_t> budgets;                          ///< [device] bytes; empty: no limit
  std::vector<std::int64_t> outside_budgets;                  ///< the same of what moves out
  const OptimizerKind* optimizer = &find_optimizer("adamw");  ///< whose slots parameters have
  Hyper hyper = {};
  LayerKinds kinds;  ///< that the model is made of
  /// What the schedule "auto" is to be good for, by the lowered program; empty: the products'
  /// FLOPs.
  std::function<plan::Costs(const schedule::Program&)> costs;

  /// Whether some microbatch lacks optional inputs.
  bool leaves_out() const {
    return !optional_inputs.empty() || evaluated_inputs.with < evaluated_inputs.microbatches;
  }
};

/// A program that has no more than its fullest one has, and runs in the same memory.
struct StepPattern {
  schedule::Program program;
  std::vector<comm::Sent> traffic = {};  ///< [device of the run] what a step sends
};

/// What the devices at a place compute of a model with fewer items.
struct FewerShares {
  std::int64_t items = 0;
  /// [number at a place][segment]; those that have no layers are as ever.
  std::vector<std::vector<SegmentSpec>> segments;
};

/// A training step, ready to be run: every instruction and every byte is known and verified.
///
/// The devices of a tensor group run one list together, each on its own share of the layers: the
/// program's devices are places of the mesh. Messages go between devices of the same number, or in
/// slices that the receivers gather (spec/message_slices.h), so the proof for places holds for
/// devices: an order in which all instructions can complete is one in which every device at a place
/// completes the instruction of its place.
struct CompiledStep {
  Graph model;  ///< whole, as checkpoints know it
  Mesh mesh;    ///< of the devices of the run
  /// [number at a place]; where places differ, the segments of those without this number are
  /// number 0's, and nobody runs them.
  std::vector<Graph> shares;
  std::vector<FewerShares> fewer;                     ///< as CompileOptions::fewer
  std::int64_t usual_items = SegmentPass::kAllItems;  ///< the same
  schedule::Program program;                     ///< compiled to evaluate alone, it is `evaluation`
  schedule::Program evaluation;                  ///< forward only, in the same memory
  std::vector<StepPattern> patterns;             ///< of steps with fewer optional inputs
  std::vector<InputCount> input_counts;          ///< [pattern], then of `program`; or empty
  std::vector<StepPattern> evaluations;          ///< with fewer optional inputs than `evaluation`
  std::vector<int> evaluated_counts;             ///< [evaluations] microbatches that have them
  std::vector<std::vector<SegmentSpec>> stages;  ///< [stage] of the whole model
  std::vector<std::vector<plan::Keep>> keep;     ///< [stage][segment] what F keeps
  std::vector<plan::StageMemory> memory;         ///< [stage]
  std::vector<std::int64_t> kernel_scratch;      ///< [place]
  std::vector<std::string> tensor_names;         ///< sorted
  std::vector<OwnedPiece> pieces;                ///< sorted
  std::vector<std::string> tie_names;            ///< [tie] -> the parameter that owns the weight
  ShardFold fold;
  ops::Arithmetic arithmetic = ops::Arithmetic::Fastest;
  int zero = 0;                             ///< what replicas share
  std::int64_t library_bytes = 0;           ///< what libraries took while kernels were compiled
  std::vector<std::int64_t> planned_bytes;  ///< [place]
  std::vector<std::int64_t> outside_bytes;  ///< [place] what OUT needs at most at a time
  std::vector<std::int64_t> host_bytes;     ///< [place] messages in the host's memory at a time
  std::string spill;                        ///< as in CompileOptions
  bool has_gradients = true;  ///< false: weights and slots are held for others, who train them
  bool state_moves = false;   ///< optimizer state and masters of bf16 are outside between steps
  std::vector<std::int64_t> staging_bytes;  ///< [place] at the end of them: for a copy of the
                                            ///< state, to save it while training goes on; or empty
  std::vector<std::int64_t> held_bytes;  ///< [place] before those: earlier and others' state, for
                                         ///< when a device is lost; or empty
  int copies = 0;  ///< of each device's state that are sent to others; see held_state.h
  std::vector<comm::Sent> traffic;            ///< [device of the run] what a step sends
  std::vector<std::int64_t> budgets;          ///< [device of the run]; empty: no limit
  std::vector<std::int64_t> outside_budgets;  ///< the same of what moves out
  std::vector<std::string> device_kinds;      ///< as in CompileOptions
  std::string warning;                        ///< what a user should hear of it; empty: nothing

  int devices() const { return mesh.devices(); }
  int place_of(int device) const { return mesh.place_of(device); }
  std::int64_t planned_on(int device) const { return planned_bytes[place_of(device)]; }
  std::int64_t outside_on(int device) const { return outside_bytes[place_of(device)]; }
  std::int64_t host_on(int device) const { return host_bytes[place_of(device)]; }
  /// What a device computes with: a kind of ops/accelerator.h.
  const std::string& kind_of(int device) const;
  /// Which of `patterns` is for steps in whose microbatches so many have optional inputs, or
  /// StepInput::kFullest; and which of `evaluations`.
  int pattern_of(std::int64_t with_inputs) const;
  int evaluation_of(std::int64_t with_inputs) const;
  const schedule::Program& program_of(int pattern) const {
    return pattern < 0 ? program : patterns[static_cast<std::size_t>(pattern)].program;
  }
  const std::vector<comm::Sent>& traffic_of(int pattern) const {
    return pattern < 0 ? traffic : patterns[static_cast<std::size_t>(pattern)].traffic;
  }
  /// The share of a run's microbatches that have no optional inputs.
  double left_out() const;
  /// The first replica that a device works for; and which of the devices it is that hold its
  /// stages.
  int replica_of(int device) const;
  int rank_of(int device) const;
  /// Whether a device runs a stage, in some replica.
  bool holds(int device, int stage) const;
};

/// partition -> program -> passes -> memory plan -> verify. Throws UserError if the layout is
/// impossible, DoesNotFit (with the numbers) if a device's plan exceeds its budget.
CompiledStep compile(const Graph& model, const CompileOptions& options);

/// For devices that sleep instead of computing (see EmulatedDevice): nothing is evaluated, and
/// memory holds messages only, or all that the model would take if something moves out of it.
/// Budgets are held against what the model would take, as compile() does.
CompiledStep compile_emulated(const Graph& model, const CompileOptions& options);

/// The stages of a device of the run, without memory; [stage], null where it is elsewhere.
std::vector<std::unique_ptr<Stage>> make_stages(const CompiledStep& step, int device,
                                                const LayerFactory& make);

}  // namespace cleave::engine
