#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "cleave/ops/compute.h"
#include "cleave/runtime/compile.h"
#include "cleave/runtime/executor.h"
#include "cleave/runtime/stage.h"
#include "cleave/tensor/arena.h"

namespace cleave::runtime {

/// A tensor of the model as checkpoints know it, in this device's memory.
struct TensorState {
  std::string name;
  Shape shape;
  View value;   ///< in the model's dtype
  View master;  ///< f32
  View gradient;
  View m;
  View v;
};

/// One device: its memory, its threads, its stages and the list it runs.
class Device {
 public:
  /// `step` and `world` must outlive the device. `world`: all devices of the run, which make their
  /// Device at the same time; null for one device alone.
  Device(const CompiledStep& step, int index, int threads, comm::Communicator* world = nullptr,
         const LayerFactory& make = &make_layer);

  int index() const { return index_; }
  Executor& executor() { return *executor_; }
  ops::Compute& compute() { return compute_; }
  const Arena& arena() const { return arena_; }

  /// The initial weights: the same for a seed and a name, on whatever device the tensor is.
  void initialise(std::uint64_t seed);

  /// The tensors that this device updates, fused ones in pieces. A tied copy is listed only where
  /// its owner is.
  const std::vector<TensorState>& tensors() const { return tensors_; }

  /// Full copies of tensors whose owner is on another device, under the owner's name.
  const std::vector<TensorState>& tied_copies() const { return tied_copies_; }

  /// Brings the values that layers compute with in line with the master weights.
  void refresh_values();

  /// Zeros in the optimizer's state, as before the first step.
  void clear_moments();

  /// (name, hash of the master weights) of tensors().
  std::vector<std::pair<std::string, std::uint64_t>> weight_hashes() const;

  /// Elements of tensors().
  std::int64_t parameter_count() const;

 private:
  int index_;
  ops::Compute compute_;
  Arena arena_;
  std::vector<std::unique_ptr<Stage>> stages_;
  std::vector<TensorState> tensors_;
  std::vector<TensorState> tied_copies_;
  std::unique_ptr<Executor> executor_;
};

/// One number for all weights of a model, whatever the layout: over (name, hash) sorted by name.
std::string combine_hashes(std::vector<std::pair<std::string, std::uint64_t>> hashes);

}  // namespace cleave::runtime
