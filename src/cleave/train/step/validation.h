#pragma once

#include <cstdint>
#include <functional>
#include <optional>

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

/// The loss over data that is not trained on, in the order of the file. All devices of a run
/// do the same.
///
/// Kernels are compiled for one shape, so data that is not filled up ends with its last whole
/// microbatch.
class Validation {
 public:
  /// Both must outlive it; `microbatch` is in sequences.
  Validation(const data::Dataset& data, const engine::CompiledStep& compiled, int device,
             std::int64_t microbatch);

  std::int64_t sequences() const { return sequences_; }
  std::int64_t tokens() const { return tokens_; }  ///< or labels that are predicted

  /// `progress` hears how many sequences are done. There must be at least one.
  Evaluation run(engine::Executor& executor,
                 const std::function<void(std::int64_t sequences)>& progress = {});

 private:
  std::int64_t replicas_;
  std::int64_t replica_;
  std::int64_t microbatch_;
  std::int64_t microbatches_;
  std::int64_t sequences_;
  std::int64_t tokens_;
  bool counts_hits_;
  ValidationSource source_;
};

}  // namespace cleave::train
