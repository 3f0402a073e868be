#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "cleave/comm/tcp/spare_buffers.h"

namespace cleave::comm {

/// What a message between two devices is known by: the group, and the tag within it.
struct MessageKey {
  std::uint64_t context = 0;
  std::int32_t tag = 0;

  friend bool operator==(const MessageKey&, const MessageKey&) = default;
};

/// What a message takes of the room for those that leave before their credit. One without bytes
/// takes something too, so that there is an end to them.
std::uint64_t early_cost(std::uint64_t length);

/// Messages of one link that are here before their receive is posted. They are few, and each is
/// copied to its place once that is known.
class EarlyArrivals {
 public:
  /// `room`: what all of them together may take, by early_cost().
  explicit EarlyArrivals(std::uint64_t room) : room_(room), spare_(room) {}

  /// Where the bytes of a message go that begins to arrive; nothing if there is no room for it.
  std::optional<std::span<std::byte>> begin(const MessageKey& key, std::uint64_t length);

  /// The one that has begun is whole.
  void end() { begun_ = false; }

  /// The one that has begun comes again from its start, over another connection.
  void forget_begun();

  /// The oldest message with this key that is whole, which is forgotten; `take` is called with it.
  template <class Take>
  bool take(const MessageKey& key, Take&& take) {
    for (std::size_t at = 0; at < messages_.size() - (begun_ ? 1 : 0); ++at) {
      if (messages_[at].key != key) continue;
      take(std::span<const std::byte>(messages_[at].bytes));
      forget(at);
      return true;
    }
    return false;
  }

 private:
  struct Arrival {
    MessageKey key;
    std::vector<std::byte> bytes;
  };

  void forget(std::size_t at);

  std::uint64_t room_;
  std::uint64_t held_ = 0;
  std::vector<Arrival> messages_;  ///< in the order of their arrival
  bool begun_ = false;             ///< the last of them is not whole
  SpareBuffers spare_;
};

/// The other end of it: messages that have left, and whose credit has not come.
class EarlyDepartures {
 public:
  explicit EarlyDepartures(std::uint64_t room) : room_(room) { messages_.reserve(64); }

  bool has_room_for(std::uint64_t length) const { return early_cost(length) <= room_ - held_; }
  void add(const MessageKey& key, std::uint64_t length);

  /// Credit has come: the length of the oldest message with this key, which is forgotten; nothing
  /// if none has left.
  std::optional<std::uint64_t> take(const MessageKey& key);

 private:
  struct Departure {
    MessageKey key;
    std::uint64_t length = 0;
  };

  std::uint64_t room_;
  std::uint64_t held_ = 0;
  std::vector<Departure> messages_;  ///< in the order of their departure
};

}  // namespace cleave::comm
