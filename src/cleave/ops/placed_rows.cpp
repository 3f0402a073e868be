#include "cleave/ops/placed_rows.h"

#include <cstring>

#include "cleave/ops/device/pairs.h"
#include "cleave/ops/simd/rows.h"
#include "cleave/ops/simd/spans.h"

namespace cleave::ops {
namespace {

/// Columns that one thread adds for all tokens; a cache line of bf16 gradients or more.
constexpr std::int64_t kPlacedGrain = 64;

bool is_placed(std::int32_t place, std::int64_t rows) {
  return place >= 0 && place < rows;
}

void check_tokens(const PlacedTokens& tokens, std::int64_t rows, std::int64_t vocabulary) {
  const std::int64_t count = tokens.ids.size(0);
  check_view("placed ids", tokens.ids, DType::I32, {count});
  check_view("placed places", tokens.places, DType::I32, {count});
  const auto* id = tokens.ids.as<std::int32_t>();
  const auto* place = tokens.places.as<std::int32_t>();
  for (std::int64_t t = 0; t < count; ++t) {
    CLEAVE_CHECK(is_placed(place[t], rows) || (id[t] >= 0 && id[t] < vocabulary), "token ", t,
                 " has id ", id[t], ", the vocabulary ", vocabulary, " entries");
  }
}

}  // namespace

void place_rows(Compute& compute, const PlacedTokens& tokens, ConstView x, ConstView table,
                View y) {
  const std::int64_t count = tokens.ids.size(0);
  const std::int64_t hidden = x.size(1);
  check_float("placed x", x);
  check_view("placed x", x, x.dtype(), {x.size(0), hidden});
  check_view("placed table", table, x.dtype(), {table.size(0), hidden});
  check_view("placed y", y, x.dtype(), {count, hidden});
  const std::int64_t rows = x ? x.size(0) : 0;
  if (Accelerator* device = compute.accelerator())
    return device::place_rows(*device, tokens, x, table, y);
  check_tokens(tokens, rows, table.size(0));
  const auto* id = tokens.ids.as<std::int32_t>();
  const auto* place = tokens.places.as<std::int32_t>();
  parallel_for(compute, count, 16, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t t = begin; t < end; ++t) {
      const std::byte* row =
          is_placed(place[t], rows) ? row_bytes(x, place[t]) : row_bytes(table, id[t]);
      std::memcpy(row_bytes(y, t), row, hidden * size_of(x.dtype()));
    }
  });
}

void add_rows(Compute& compute, ConstView places, ConstView x, ConstView rows, View y) {
  const std::int64_t count = x.size(0);
  const std::int64_t hidden = x.size(1);
  check_float("placed x", x);
  check_view("placed x", x, x.dtype(), {count, hidden});
  check_view("placed y", y, x.dtype(), {count, hidden});
  const std::int64_t most = rows ? rows.size(0) : 0;
  if (rows) {
    check_view("placed rows", rows, x.dtype(), {most, hidden});
    check_view("placed places", places, DType::I32, {count});
  }
  if (Accelerator* device = compute.accelerator())
    return device::add_rows(*device, places, x, rows, y);
  const std::size_t bytes = static_cast<std::size_t>(hidden * size_of(x.dtype()));
  parallel_for(compute, count, 16, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t t = begin; t < end; ++t) {
      const std::int32_t place = rows ? places.as<std::int32_t>()[t] : -1;
      if (is_placed(place, most)) {
        add_span(x.dtype(), row_bytes(x, t), row_bytes(rows, place), row_bytes(y, t), hidden);
      } else if (x.bytes() != y.bytes()) {
        std::memcpy(row_bytes(y, t), row_bytes(x, t), bytes);
      }
    }
  });
}

void place_rows_backward(Compute& compute, ConstView places, ConstView dy, View dx) {
  const std::int64_t count = dy.size(0);
  const std::int64_t hidden = dy.size(1);
  const std::int64_t rows = dx.size(0);
  check_float("placed dy", dy);
  check_view("placed places", places, DType::I32, {count});
  check_view("placed dy", dy, dy.dtype(), {count, hidden});
  check_view("placed dx", dx, dy.dtype(), {rows, hidden});
  if (Accelerator* device = compute.accelerator())
    return device::place_rows_backward(*device, places, dy, dx);
  const auto* place = places.as<std::int32_t>();
  parallel_for(compute, hidden, kPlacedGrain, [&](std::int64_t begin, std::int64_t end) {
    const std::int64_t columns = end - begin;
    for (std::int64_t row = 0; row < rows; ++row)
      std::memset(row_bytes(dx, row, begin), 0, columns * size_of(dx.dtype()));
    for (std::int64_t t = 0; t < count; ++t) {
      if (!is_placed(place[t], rows)) continue;
      std::byte* sum = row_bytes(dx, place[t], begin);
      add_span(dy.dtype(), sum, row_bytes(dy, t, begin), sum, columns);
    }
  });
}

void place_table_backward(Compute& compute, const PlacedTokens& tokens, std::int64_t rows,
                          ConstView dy, View dtable) {
  const std::int64_t count = dy.size(0);
  const std::int64_t hidden = dy.size(1);
  check_float("placed dy", dy);
  check_view("placed dy", dy, dy.dtype(), {count, hidden});
  check_view("placed dtable", dtable, DType::F32, {dtable.size(0), hidden});
  if (Accelerator* device = compute.accelerator())
    return device::place_table_backward(*device, tokens, rows, dy, dtable);
  check_tokens(tokens, rows, dtable.size(0));
  const auto* id = tokens.ids.as<std::int32_t>();
  const auto* place = tokens.places.as<std::int32_t>();
  parallel_for(compute, hidden, kPlacedGrain, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t t = 0; t < count; ++t) {
      if (is_placed(place[t], rows) || id[t] == tokens.still) continue;
      accumulate_span(dy.dtype(), row_bytes(dy, t, begin), row_of<float>(dtable, id[t]) + begin,
                      end - begin);
    }
  });
}

}  // namespace cleave::ops
