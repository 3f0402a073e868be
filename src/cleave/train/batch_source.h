#pragma once

#include <cstdint>

#include "cleave/runtime/microbatch_source.h"
#include "cleave/train/data.h"

namespace cleave::train {

/// The microbatches of one replica: `replica` takes the sequences [replica · share, …) of each
/// batch, in order.
class BatchSource : public runtime::MicrobatchSource {
 public:
  struct Share {
    std::int64_t first = 0;       ///< sequence of the batch that this replica begins with
    std::int64_t microbatch = 1;  ///< sequences
  };

  BatchSource(const Dataset& data, Share share) : data_(&data), share_(share) {}

  void begin_step(std::int64_t step) { step_ = step; }
  void load_tokens(int index, View tokens) override;
  void load_targets(int index, View targets) override;

 private:
  std::int64_t first_sequence(int index) const { return share_.first + index * share_.microbatch; }

  const Dataset* data_;
  Share share_;
  std::int64_t step_ = 0;
};

/// Held-out sequences in the order of the file.
class ValidationSource : public runtime::MicrobatchSource {
 public:
  ValidationSource(const Dataset& data, std::int64_t microbatch)
      : data_(&data), microbatch_(microbatch) {}

  /// The next call's microbatch 0 begins at this window.
  void begin_at(std::int64_t window) { first_ = window; }
  void load_tokens(int index, View tokens) override;
  void load_targets(int index, View targets) override;

 private:
  const Dataset* data_;
  std::int64_t microbatch_;
  std::int64_t first_ = 0;
};

}  // namespace cleave::train
