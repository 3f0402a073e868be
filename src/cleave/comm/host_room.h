#pragma once

#include <cstddef>
#include <span>
#include <vector>

namespace cleave::comm {

class HostSlots;

/// The host's memory that a collective of a device passes through whose own memory no transport
/// reaches. Other devices need none.
struct HostRoom {
  std::span<std::byte> bytes = {};
  HostSlots* owner = nullptr;  ///< takes it back when the collective is over; null: nobody waits
};

/// Room for a few collectives at a time, as many bytes for each.
class HostSlots {
 public:
  HostSlots() = default;  ///< for devices that need none
  HostSlots(std::span<std::byte> all, std::size_t count);

  /// Nothing where there is none. More bytes or more at once than it was made for are a bug.
  HostRoom take(std::size_t bytes);
  void give_back(std::span<std::byte> bytes) noexcept;

 private:
  std::vector<std::span<std::byte>> free_;
  std::size_t slot_bytes_ = 0;
};

/// Bytes of it that a sum over `members` needs which gathers its results, or does not: what is sent
/// and what arrives of a round has a place each.
std::size_t all_reduce_host_bytes(std::size_t bytes, std::size_t workspace);
std::size_t reduce_scatter_host_bytes(std::size_t workspace);

}  // namespace cleave::comm
