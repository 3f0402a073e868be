#include "cleave/ops/reference/embedding.h"

#include <bit>

#include "cleave/ops/reference/element.h"

namespace cleave::ops::reference {

float packed_number(ConstView rows, std::int64_t row, std::int64_t numbers, std::int64_t index) {
  const auto* words = rows.as<std::int32_t>() + row * rows.stride(0);
  const std::int64_t blocks = (numbers + 63) / 64;
  const auto scale = std::bit_cast<float>(words[index / 64]);
  const std::uint32_t four = static_cast<std::uint32_t>(words[blocks + index / 4]);
  const int byte = static_cast<int>(four >> index % 4 * 8 & 0xff);  // the first is the lowest
  return static_cast<float>(byte < 128 ? byte : byte - 256) * scale;
}

void embedding(const EmbeddingArgs& args) {
  const bool packed = args.table.dtype() == DType::I32;
  for (std::int64_t t = 0; t < args.y.size(0); ++t) {
    const std::int64_t id = args.ids.as<std::int32_t>()[t];
    for (std::int64_t i = 0; i < args.y.size(1); ++i) {
      float entry =
          packed ? packed_number(args.table, id, args.y.size(1), i) : get(args.table, {id, i});
      if (args.y.dtype() == DType::BF16) entry = to_float(to_bf16(entry));
      float value = entry * args.rows.scale;
      if (args.positions) {
        value += get(args.positions, {args.first_position + t % args.sequence, i});
      }
      set(args.y, {t, i}, value);
    }
  }
}

// Sums of gradients are f32 in token order, as in the op: they must agree to the last bit.

void embedding_backward(ConstView ids, ConstView dy, View dtable, float scale, std::int64_t still) {
  for (std::int64_t t = 0; t < dy.size(0); ++t) {
    const std::int64_t id = ids.as<std::int32_t>()[t];
    if (id == still) continue;
    for (std::int64_t i = 0; i < dy.size(1); ++i) {
      set(dtable, {id, i}, get(dtable, {id, i}) + get(dy, {t, i}) * scale);
    }
  }
}

void position_backward(ConstView dy, std::int64_t sequence, View dpositions) {
  for (std::int64_t t = 0; t < dy.size(0); ++t) {
    for (std::int64_t i = 0; i < dy.size(1); ++i) {
      const std::int64_t position = t % sequence;
      set(dpositions, {position, i}, get(dpositions, {position, i}) + get(dy, {t, i}));
    }
  }
}

}  // namespace cleave::ops::reference
