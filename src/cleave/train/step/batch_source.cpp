#include "cleave/train/step/batch_source.h"

#include <span>

namespace cleave::train {
namespace {

/// Row `row` of `count` equal rows.
std::span<std::int32_t> row_of(View ids, std::int64_t row, std::int64_t count) {
  const std::int64_t length = ids.elements() / count;
  return {ids.as<std::int32_t>() + row * length, static_cast<std::size_t>(length)};
}

}  // namespace

void BatchSource::load_tokens(int index, View tokens) {
  for (std::int64_t row = 0; row < share_.microbatch; ++row) {
    data_->read(step_, first_sequence(index) + row, row_of(tokens, row, share_.microbatch), {});
  }
}

void BatchSource::load_targets(int index, View targets) {
  for (std::int64_t row = 0; row < share_.microbatch; ++row) {
    data_->read(step_, first_sequence(index) + row, {}, row_of(targets, row, share_.microbatch));
  }
}

void ValidationSource::load_tokens(int index, View tokens) {
  for (std::int64_t row = 0; row < microbatch_; ++row) {
    data_->read_window(first_window(index) + row, row_of(tokens, row, microbatch_), {});
  }
}

void ValidationSource::load_targets(int index, View targets) {
  for (std::int64_t row = 0; row < microbatch_; ++row) {
    data_->read_window(first_window(index) + row, {}, row_of(targets, row, microbatch_));
  }
}

}  // namespace cleave::train
