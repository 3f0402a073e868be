#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <vector>

#include "cleave/data/dataset.h"
#include "cleave/engine/compile/compile.h"
#include "cleave/engine/run/executor.h"
#include "cleave/train/step/batch_source.h"

namespace cleave::train {

/// What the held-out samples came to.
struct Evaluation {
  double loss = 0;                      ///< mean
  std::optional<double> accuracy = {};  ///< share of samples whose class was found, if it has one
};

/// The loss over data that is not trained on, in the order of the file; for models with optional
/// inputs, samples that have them come first. All devices of a run do the same.
///
/// Kernels are compiled for one shape, so data that is not filled up ends with its last whole
/// microbatch; where data belong to clients, those of each do.
class Validation {
 public:
  /// Both must outlive it; `microbatch` is in sequences. `clients`: how many of the windows are
  /// each client's, in order; what is a client's is read by the replica that plays it alone. Empty:
  /// they are nobody's in particular, and replicas take turns.
  Validation(const data::Dataset& data, const engine::CompiledStep& compiled, int device,
             std::int64_t microbatch, std::span<const std::int64_t> clients = {});

  std::int64_t sequences() const { return sequences_; }
  std::int64_t tokens() const { return tokens_; }  ///< or labels that are predicted

  /// `progress` hears how many sequences are done. There must be at least one.
  Evaluation run(engine::Executor& executor,
                 const std::function<void(std::int64_t sequences)>& progress = {});

 private:
  using Run = ValidationSource::Run;

  /// What a replica evaluates in a pass of `at_once` microbatches on each, as numbers of all.
  Run part_of(std::int64_t pass, std::int64_t replica, std::int64_t at_once) const;
  std::int64_t passes(std::int64_t at_once) const;
  int pattern_of(std::int64_t pass, std::int64_t at_once) const;

  const engine::CompiledStep* compiled_;
  std::int64_t replicas_;
  std::int64_t replica_;
  std::int64_t microbatch_;
  std::vector<Run> own_;  ///< [replica] what is its own; empty: replicas take turns
  std::int64_t microbatches_ = 0;
  std::optional<std::int64_t> with_images_;  ///< microbatches, the first ones; nothing: any may
  std::int64_t sequences_ = 0;
  std::int64_t tokens_ = 0;
  bool counts_hits_;
  std::optional<ValidationSource> source_;
};

}  // namespace cleave::train
