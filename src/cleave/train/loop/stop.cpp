#include "cleave/train/loop/stop.h"

#include <atomic>

namespace cleave::train {
namespace {

std::atomic<bool> stop_requested = false;

}  // namespace

void request_stop() noexcept {
  stop_requested.store(true, std::memory_order_relaxed);
}

bool stop_was_requested() noexcept {
  return stop_requested.load(std::memory_order_relaxed);
}

bool agree_to_stop(comm::Communicator& world) {
  double stop = stop_was_requested() ? 1 : 0;
  world.combine({&stop, 1}, comm::Combine::Max);
  return stop > 0;
}

}  // namespace cleave::train
