#include "cleave/ops/reference/rope.h"

#include "cleave/ops/reference/element.h"

namespace cleave::ops::reference {

void rope(const RopeArgs& args) {
  const std::int64_t half = args.cos.size(1);
  const double direction = args.rotation == Rotation::Forward ? 1 : -1;
  for (std::int64_t t = 0; t < args.x.size(0); ++t) {
    const std::int64_t position = args.first_position + t % args.sequence;
    for (std::int64_t head = 0; head < args.x.size(1); ++head) {
      for (std::int64_t i = 0; i < half; ++i) {
        const double cos = get(args.cos, {position, i});
        const double sin = get(args.sin, {position, i}) * direction;
        const double a = get(args.x, {t, head, i});
        const double b = get(args.x, {t, head, half + i});
        set(args.x, {t, head, i}, a * cos - b * sin);
        set(args.x, {t, head, half + i}, b * cos + a * sin);
      }
    }
  }
}

}  // namespace cleave::ops::reference
