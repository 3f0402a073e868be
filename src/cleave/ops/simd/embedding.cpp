#include "cleave/ops/embedding.h"

#include <cstring>

#include "cleave/ops/device/reduction.h"
#include "cleave/ops/packed_rows.h"
#include "cleave/ops/simd/rows.h"
#include "cleave/ops/simd/spans.h"
#include "cleave/spec/packed_rows.h"

namespace cleave::ops {
namespace {

/// Columns that one thread adds for all tokens; a cache line of bf16 gradients or more.
constexpr std::int64_t kColumnGrain = 64;

void check_ids(ConstView ids, std::int64_t table_rows, const VocabRows& rows) {
  const std::int64_t vocab = rows.vocabulary == 0 ? table_rows : rows.vocabulary;
  const auto* id = ids.as<std::int32_t>();
  for (std::int64_t token = 0; token < ids.size(0); ++token) {
    CLEAVE_CHECK(id[token] >= 0 && id[token] < vocab, "token ", token, " has id ", id[token],
                 ", the vocabulary ", vocab, " entries");
  }
}

}  // namespace

void embedding(Compute& compute, const EmbeddingArgs& args) {
  const ConstView table = args.table;
  const std::int64_t tokens = args.ids.size(0);
  const std::int64_t hidden = args.y.size(1);
  const DType dtype = args.y.dtype();
  const bool packed = table.dtype() == DType::I32;
  check_float("embedding y", args.y);
  check_view("embedding ids", args.ids, DType::I32, {tokens});
  check_view("embedding table", table, packed ? DType::I32 : dtype,
             {table.size(0), packed ? packed_row_words(hidden) : hidden});
  check_view("embedding y", args.y, dtype, {tokens, hidden});
  if (args.positions) {
    CLEAVE_CHECK(args.rows.scale == 1, "embedding with positions and a scale of ", args.rows.scale);
    const std::int64_t context = args.positions.size(0);
    check_view("embedding positions", args.positions, dtype, {context, hidden});
    CLEAVE_CHECK(args.first_position + args.sequence <= context, "positions ", args.first_position,
                 "+", args.sequence, " of ", context);
  }
  CLEAVE_CHECK(!packed || compute.accelerator() == nullptr, "packed rows on an accelerator");
  if (Accelerator* device = compute.accelerator()) return device::embedding(*device, args);
  check_ids(args.ids, table.size(0), args.rows);
  const auto* ids = args.ids.as<std::int32_t>();
  parallel_for(compute, tokens, 16, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t token = begin; token < end; ++token) {
      std::byte* y = row_bytes(args.y, token);
      const std::int64_t row = ids[token] - args.rows.first;
      if (row < 0 || row >= table.size(0)) {
        std::memset(y, 0, hidden * size_of(dtype));
        continue;
      }
      const std::byte* entry = row_bytes(table, row);
      if (packed) {
        unpack_row(entry, dtype, y, static_cast<std::size_t>(hidden));
        entry = y;
      }
      if (args.positions) {
        const std::int64_t position = args.first_position + token % args.sequence;
        add_span(dtype, entry, row_bytes(args.positions, position), y, hidden);
      } else if (args.rows.scale != 1) {
        scale_span(dtype, entry, args.rows.scale, y, hidden);
      } else if (!packed) {
        std::memcpy(y, entry, hidden * size_of(dtype));
      }
    }
  });
}

void embedding_backward(Compute& compute, ConstView ids, ConstView dy, View dtable,
                        const VocabRows& rows) {
  const std::int64_t tokens = dy.size(0);
  const std::int64_t hidden = dy.size(1);
  check_float("embedding dy", dy);
  check_view("embedding ids", ids, DType::I32, {tokens});
  check_view("embedding dy", dy, dy.dtype(), {tokens, hidden});
  check_view("embedding dtable", dtable, DType::F32, {dtable.size(0), hidden});
  if (Accelerator* device = compute.accelerator())
    return device::embedding_backward(*device, ids, dy, dtable, rows);
  check_ids(ids, dtable.size(0), rows);
  const auto* id = ids.as<std::int32_t>();
  parallel_for(compute, hidden, kColumnGrain, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t token = 0; token < tokens; ++token) {
      const std::int64_t row = id[token] - rows.first;
      if (row < 0 || row >= dtable.size(0) || id[token] == rows.still) continue;
      const std::byte* from = row_bytes(dy, token, begin);
      float* to = row_of<float>(dtable, row) + begin;
      if (rows.scale == 1) {
        accumulate_span(dy.dtype(), from, to, end - begin);
      } else {
        accumulate_scaled_span(dy.dtype(), from, rows.scale, to, end - begin);
      }
    }
  });
}

void position_backward(Compute& compute, ConstView dy, std::int64_t sequence, View dpositions) {
  const std::int64_t tokens = dy.size(0);
  const std::int64_t hidden = dy.size(1);
  check_float("position dy", dy);
  check_view("position dy", dy, dy.dtype(), {tokens, hidden});
  check_view("position gradient", dpositions, DType::F32, {dpositions.size(0), hidden});
  CLEAVE_CHECK(sequence <= dpositions.size(0), sequence, " positions of ", dpositions.size(0));
  if (Accelerator* device = compute.accelerator())
    return device::position_backward(*device, dy, sequence, dpositions);
  parallel_for(compute, std::min(sequence, tokens), 16, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t position = begin; position < end; ++position) {
      for (std::int64_t token = position; token < tokens; token += sequence) {
        accumulate_span(dy.dtype(), row_bytes(dy, token), row_of<float>(dpositions, position),
                        hidden);
      }
    }
  });
}

}  // namespace cleave::ops
