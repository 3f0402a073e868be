#include "cleave/base/check.h"
#include "cleave/schedule/checks/buffer_use.h"
#include "cleave/schedule/text_words.h"

namespace cleave::schedule::checks {

bool is_static(const Buffer& b) {
  return is_lasting(b) || is_scratch(b);
}

bool is_scratch(const Buffer& b) {
  return b.kind == BufferKind::Scratch || b.kind == BufferKind::ScratchOnHost;
}

bool is_kept(const Buffer& b) {
  return b.kind >= BufferKind::KeptForInput && b.kind <= BufferKind::SegmentGradient;
}

bool is_moved(const Buffer& b) {
  return b.kind >= BufferKind::ReturnedForInput && b.kind <= BufferKind::Outside;
}

bool is_state(const Buffer& b) {
  return b.kind == BufferKind::FetchedState || b.kind == BufferKind::StoredState;
}

bool is_of_gradients(const Buffer& b) {
  return b.kind >= BufferKind::Sums && b.kind <= BufferKind::Reducing;
}

bool is_one_of_several(const Buffer& b) {
  return b.kind == BufferKind::Gathered || is_exchange_on_host(b);
}

bool is_carried(const Buffer& b) {
  return is_message_on_host(b) ||
         ((b.kind == BufferKind::Arriving || b.kind == BufferKind::Leaving) && b.edge >= 0);
}

bool is_stage_end(const Buffer& b) {
  return (b.kind == BufferKind::Arriving || b.kind == BufferKind::Leaving) && b.edge < 0;
}

std::string text_of(const Buffer& b) {
  using cleave::detail::concat;
  std::string text(name_of(b.kind));
  if (is_carried(b))
    return concat(text, " of edge ", b.edge, b.direction == Direction::Forward ? '>' : '<',
                  b.microbatch);
  if (is_scratch(b)) return text;
  text += concat(" of stage ", b.stage);
  if (b.segment >= 0) text += concat(".", b.segment);
  if (is_kept(b) || is_moved(b) || is_stage_end(b)) text += concat(", microbatch ", b.microbatch);
  return text;
}

}  // namespace cleave::schedule::checks
