#include "cleave/ops/reference/embedding.h"

#include "cleave/ops/reference/element.h"

namespace cleave::ops::reference {

void embedding(const EmbeddingArgs& args) {
  for (std::int64_t t = 0; t < args.y.size(0); ++t) {
    const std::int64_t id = args.ids.as<std::int32_t>()[t];
    for (std::int64_t i = 0; i < args.y.size(1); ++i) {
      float value = get(args.table, {id, i}) * args.rows.scale;
      if (args.positions) {
        value += get(args.positions, {args.first_position + t % args.sequence, i});
      }
      set(args.y, {t, i}, value);
    }
  }
}

// Sums of gradients are f32 in token order, as in the op: they must agree to the last bit.

void embedding_backward(ConstView ids, ConstView dy, View dtable, float scale) {
  for (std::int64_t t = 0; t < dy.size(0); ++t) {
    const std::int64_t id = ids.as<std::int32_t>()[t];
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
