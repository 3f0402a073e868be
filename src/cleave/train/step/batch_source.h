#pragma once

#include <algorithm>
#include <cstdint>

#include "cleave/data/dataset.h"
#include "cleave/engine/run/microbatch_source.h"

namespace cleave::train {

/// The microbatches of one replica: `replica` takes the sequences [replica · share, …) of each
/// batch, in order.
class BatchSource : public engine::MicrobatchSource {
 public:
  struct Share {
    std::int64_t first = 0;       ///< sequence of the batch that this replica begins with
    std::int64_t microbatch = 1;  ///< sequences
  };

  BatchSource(const data::Dataset& data, Share share) : data_(&data), share_(share) {}

  void begin_step(std::int64_t step) { step_ = step; }
  /// Of the whole batch, on every replica.
  std::int64_t step_targets() const { return data_->step_targets(step_); }
  void load(int index, std::string_view input, View ids) override;

 private:
  std::int64_t first_sequence(int index) const { return share_.first + index * share_.microbatch; }

  const data::Dataset* data_;
  Share share_;
  std::int64_t step_ = 0;
};

/// Held-out sequences in the order of the file, `count` microbatches of them. Where the data ends
/// inside of the last one, the rest of its rows have nothing to predict.
class ValidationSource : public engine::MicrobatchSource {
 public:
  ValidationSource(const data::Dataset& data, std::int64_t microbatch, std::int64_t count)
      : data_(&data), microbatch_(microbatch), count_(count) {}

  /// Microbatch 0 of the next calls is this one of all. Past the end the last one comes again.
  void begin_at(std::int64_t microbatch) { first_ = microbatch; }
  void load(int index, std::string_view input, View ids) override;

 private:
  std::int64_t first_window(int index) const {
    return std::min(first_ + index, count_ - 1) * microbatch_;
  }

  const data::Dataset* data_;
  std::int64_t microbatch_;
  std::int64_t count_;
  std::int64_t first_ = 0;
};

}  // namespace cleave::train
