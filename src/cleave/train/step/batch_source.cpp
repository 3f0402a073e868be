#include "cleave/train/step/batch_source.h"

#include <algorithm>
#include <span>

#include "cleave/base/check.h"

namespace cleave::train {
namespace {

/// Row `row` of `count` equal rows.
std::span<std::int32_t> row_of(View ids, std::int64_t row, std::int64_t count) {
  const std::int64_t length = ids.elements() / count;
  return {ids.as<std::int32_t>() + row * length, static_cast<std::size_t>(length)};
}

/// The rows that `read` fills: `ids` are the tokens, or the targets.
template <class Read>
void load_rows(std::string_view input, View ids, std::int64_t rows, Read read) {
  for (std::int64_t row = 0; row < rows; ++row) {
    if (input == "tokens") {
      read(row, row_of(ids, row, rows), std::span<std::int32_t>());
    } else {
      CLEAVE_CHECK(input == "targets", "there is no data for the model's input ", input);
      read(row, std::span<std::int32_t>(), row_of(ids, row, rows));
    }
  }
}

}  // namespace

void BatchSource::load(int index, std::string_view input, View ids) {
  load_rows(input, ids, share_.microbatch, [&](std::int64_t row, auto tokens, auto targets) {
    data_->read(step_, first_sequence(index) + row, tokens, targets);
  });
}

void ValidationSource::load(int index, std::string_view input, View ids) {
  load_rows(input, ids, microbatch_, [&](std::int64_t row, auto tokens, auto targets) {
    const std::int64_t window = first_window(index) + row;
    if (window < data_->windows()) return data_->read_window(window, tokens, targets);
    std::ranges::fill(tokens, 0);
    std::ranges::fill(targets, data::kNoTarget);
  });
}

}  // namespace cleave::train
