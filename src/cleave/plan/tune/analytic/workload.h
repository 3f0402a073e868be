#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "cleave/model/model_shape.h"
#include "cleave/plan/hardware/hardware.h"
#include "cleave/plan/tune/layout.h"
#include "cleave/spec/graph.h"

namespace cleave::plan {

/// What is to be trained, on what.
struct Workload {
  ModelShape model;
  std::int64_t sequence = 0;
  std::int64_t batch = 0;  ///< sequences per step, all devices together
  Cluster cluster;
  AttentionKernel attention = AttentionKernel::Flash;
  std::int64_t images = 1;                ///< of a sequence, for models that read both
  std::vector<std::string> trained = {};  ///< modules, or patterns of names; empty: all
};

/// The model for microbatches of so many sequences, with what learns of it.
Graph model_graph(const Workload& workload, std::int64_t sequences);

/// Whether a model has modules, whose blocks are not alike: a tower of images, and a language
/// model.
bool has_modules(const ModelShape& model);

/// Whether its loss is over all samples of a step.
bool has_loss_over_step(const ModelShape& model);

/// ZeRO-3 runs are those of PyTorch's FSDP, the others those of Megatron.
Kernels kernels_of(const Layout& layout);

/// Microbatches of one step on one replica.
std::int64_t microbatches(const Workload& workload, const Layout& layout);

/// Whether tensor groups of so many devices can share the model.
bool splits(const ModelShape& model, int tensor);

/// Throws UserError, naming the value, the rule and the remedy, if no run can have this layout.
void check(const Workload& workload, const Layout& layout);

}  // namespace cleave::plan
