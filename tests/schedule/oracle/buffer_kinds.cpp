#include "schedule/oracle/buffer_kinds.h"

namespace cleave::schedule::oracle {

bool is_end(const Buffer& b) {
  return b.edge < 0 && (b.kind == BufferKind::Arriving || b.kind == BufferKind::Leaving);
}

bool lies_on_host(const Buffer& b) {
  return b.kind >= BufferKind::ArrivingOnHost;
}

bool is_edge_buffer(const Buffer& b) {
  return b.kind == BufferKind::ArrivingOnHost || b.kind == BufferKind::LeavingOnHost ||
         (b.edge >= 0 && (b.kind == BufferKind::Arriving || b.kind == BufferKind::Leaving));
}

bool lies_outside(const Buffer& b) {
  return b.kind == BufferKind::Outside || b.kind == BufferKind::StoredState;
}

bool of_microbatch(BufferKind kind) {
  switch (kind) {
    case BufferKind::Weights:
    case BufferKind::Gradients:
    case BufferKind::Optimizer:
    case BufferKind::Gathered:
    case BufferKind::Sums:
    case BufferKind::Share:
    case BufferKind::Reducing:
    case BufferKind::Collected:
    case BufferKind::Scratch:
    case BufferKind::FetchedState:
    case BufferKind::StoredState:
    case BufferKind::ReducingOnHost:
    case BufferKind::GatheringOnHost:
    case BufferKind::RefreshingOnHost:
    case BufferKind::CollectingOnHost:
    case BufferKind::ScratchOnHost:
      return false;
    default:
      return true;
  }
}

bool comes_again(BufferKind kind) {
  return kind == BufferKind::Gathered ||
         (kind >= BufferKind::ReducingOnHost && kind <= BufferKind::CollectingOnHost);
}

}  // namespace cleave::schedule::oracle
