#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "cleave/engine/compile/compile.h"
#include "cleave/engine/run/executor.h"
#include "cleave/engine/stage/peers.h"
#include "cleave/engine/stage/stage.h"
#include "cleave/engine/stage/tensor_state.h"
#include "cleave/ops/accelerator.h"
#include "cleave/ops/compute.h"
#include "cleave/parallel/tensor_group.h"
#include "cleave/tensor/arena.h"
#include "cleave/tensor/spill_memory.h"

namespace cleave::engine {

/// One device: its accelerator, if it has one, its memory, its threads, its stages and the list it
/// runs.
class Device {
 public:
  /// `step` and `world` must outlive the device. `world`: all devices of the run, which make their
  /// Device at the same time.
  Device(const CompiledStep& step, int index, int threads, comm::Communicator& world,
         const LayerFactory& make = LayerKinds());
  ~Device();

  /// Its place in the program.
  int place() const { return place_; }
  Executor& executor() { return *executor_; }
  /// [stage] null: it is elsewhere.
  std::vector<const Stage*> stages() const {
    std::vector<const Stage*> all;
    for (const auto& stage : stages_) all.push_back(stage.get());
    return all;
  }
  ops::Compute& compute() { return compute_; }
  const Arena& arena() const { return *arena_; }
  const Arena& outside() const { return outside_; }
  const Arena& host() const { return host_; }

  /// So that what lies in it can outlast the device.
  std::shared_ptr<Arena> shared_arena() { return arena_; }

  /// The initial weights: the same for a seed and a name, on whatever device the tensor is.
  void initialise(std::uint64_t seed);

  /// As initialise() for the tensors that `wanted` says yes to; the others are written by somebody
  /// else. Call refresh_values() when all have their weights.
  void initialise_some(std::uint64_t seed, const std::function<bool(const std::string&)>& wanted);

  /// Weights that are as large as initial ones and cost little: for who looks at times alone.
  void fill_roughly();

  /// The tensors, or slices of them, that this device updates, fused ones in pieces. Over the
  /// devices of a replica they are every element of the model once; where replicas share state,
  /// over all devices.
  const std::vector<TensorState>& tensors() const { return tensors_; }

  /// True if tensors() are this device's to save and to count: no other replica has them too.
  bool is_owner() const { return owner_; }

  /// Copies whose owner is elsewhere, under its name: updated in step with it, never saved.
  const std::vector<TensorState>& copies() const { return copies_; }

  /// For a copy of what is saved; empty if none was planned.
  std::span<std::byte> staging() const { return staging_; }

  /// For earlier state and that of other devices; empty if none was planned.
  std::span<std::byte> held() const { return held_; }

  /// Brings the values that layers compute with in line with the master weights.
  void refresh_values();

  /// Zeros in the optimizer's slots, as before the first step.
  void clear_slots();

  /// (name, tensor_sum of the master weights) of tensors(): sums of slices add up.
  std::vector<std::pair<std::string, std::uint64_t>> weight_hashes() const;

  /// Elements of tensors().
  std::int64_t parameter_count() const;

 private:
  std::vector<Stage*> bind_stages(const CompiledStep& step, int rank);
  void list(const ParameterState& parameter, bool owner);
  void for_each_fresh(const std::function<void(const TensorState&, const Init&)>& visit);

  int place_;
  comm::Communicator& world_;
  std::unique_ptr<ops::Accelerator> accelerator_;  ///< null: a processor computes
  ops::Compute compute_;
  std::shared_ptr<Arena> arena_;        ///< shared with who keeps the state after a loss
  std::unique_ptr<SpillMemory> spill_;  ///< null: what moves out stays in the host's memory
  Arena outside_;
  Arena host_;  ///< messages and sums on their way, where they pass through the host's memory
  Peers peers_;
  std::unique_ptr<parallel::TensorGroup> group_;  ///< null: alone at its place
  std::vector<std::unique_ptr<Stage>> stages_;
  std::vector<TensorState> tensors_;
  std::vector<TensorState> copies_;
  std::span<std::byte> staging_;
  std::span<std::byte> held_;
  bool owner_ = true;
  std::unique_ptr<Executor> executor_;
};

/// One number for all weights of a model, whatever the layout: over (name, sum) sorted by name,
/// the sums of one name added up.
std::string combine_hashes(std::span<const std::pair<std::string, std::uint64_t>> hashes);

}  // namespace cleave::engine
