#include "cleave/comm/host_room.h"

#include <algorithm>

#include "cleave/base/check.h"
#include "cleave/base/units.h"

namespace cleave::comm {

HostSlots::HostSlots(std::span<std::byte> all, std::size_t count)
    : slot_bytes_(all.size() / count / kAlignment * kAlignment) {
  if (slot_bytes_ == 0) return;
  for (std::size_t i = 0; i < count; ++i)
    free_.push_back(all.subspan(i * slot_bytes_, slot_bytes_));
}

HostRoom HostSlots::take(std::size_t bytes) {
  if (slot_bytes_ == 0) return {};
  CLEAVE_CHECK(!free_.empty() && bytes <= slot_bytes_, "no room on the host for ", bytes,
               " B that are exchanged: ", free_.size(), " places of ", slot_bytes_, " B are free");
  const std::span<std::byte> slot = free_.back();
  free_.pop_back();
  return {.bytes = slot, .owner = this};
}

void HostSlots::give_back(std::span<std::byte> bytes) noexcept {
  free_.push_back(bytes);  // which was one of them: there is room
}

std::size_t all_reduce_host_bytes(std::size_t bytes, std::size_t workspace) {
  return std::max(bytes, reduce_scatter_host_bytes(workspace));
}

std::size_t reduce_scatter_host_bytes(std::size_t workspace) {
  return 2 * workspace;
}

}  // namespace cleave::comm
