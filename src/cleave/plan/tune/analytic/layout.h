#pragma once

#include <cstdint>
#include <string>

#include "cleave/plan/hardware/hardware.h"
#include "cleave/schedule/passes.h"
#include "cleave/model/model_shape.h"

namespace cleave::plan {

/// How a model is spread over a cluster and its batch over time.
struct Layout {
  std::int64_t tensor = 1;
  std::int64_t pipeline = 1;
  std::int64_t data = 1;
  std::int64_t microbatch = 1;  ///< sequences
  std::int64_t chunks = 1;      ///< stages on each device of the pipeline
  std::string schedule = "1f1b";
  int zero = 0;
  schedule::Recompute recompute = schedule::Recompute::None;
  bool sequence_parallel = false;

  std::int64_t devices() const { return tensor * pipeline * data; }
  friend bool operator==(const Layout&, const Layout&) = default;
};

/// What is to be trained, on what.
struct Workload {
  ModelShape model;
  std::int64_t sequence = 0;
  std::int64_t batch = 0;  ///< sequences per step, all devices together
  Cluster cluster;
  AttentionKernel attention = AttentionKernel::Flash;
};

/// "none", "full", "selective".
std::string_view to_string(schedule::Recompute recompute);

/// "tp=8,pp=4,dp=32,microbatch=2,chunks=3,…": what --layout reads.
std::string to_string(const Layout& layout);

/// The embedding and the head can be stages of their own.
std::int64_t most_stages(const ModelShape& model);

/// ZeRO-3 runs are those of PyTorch's FSDP, the others those of Megatron.
Kernels kernels_of(const Layout& layout);

/// Microbatches of one step on one replica.
std::int64_t microbatches(const Workload& workload, const Layout& layout);

/// Throws UserError, naming the value, the rule and the remedy, if no run can have this layout.
void check(const Workload& workload, const Layout& layout);

}  // namespace cleave::plan
