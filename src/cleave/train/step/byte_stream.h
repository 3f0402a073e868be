#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "cleave/comm/communicator.h"

namespace cleave::train {

// Many bytes from one process to others, in messages of a size that both ends know. A message takes
// the way there and back, however short it is, so there are few of them, and two on their way.

/// The most that one message has.
inline constexpr std::size_t kStreamMessage = 1 << 20;

/// The end that sends, the same to everybody in `to`. It has room for two messages.
class SendStream {
 public:
  SendStream(comm::Communicator& processes, std::vector<int> to, int tag);

  /// The next bytes, which are copied.
  void put(std::span<const std::byte> bytes);

  /// Nothing follows: waits until all of it has arrived.
  void end();

 private:
  struct Room {
    std::vector<std::byte> bytes;
    std::vector<comm::Pending> on_their_way = {};
  };
  void send();
  static void wait(Room& room);

  comm::Communicator& processes_;
  std::vector<int> to_;
  int tag_;
  std::array<Room, 2> rooms_;
  std::size_t current_ = 0;
};

/// The end that receives `bytes` in all. It has room for two messages.
class ReceiveStream {
 public:
  ReceiveStream(comm::Communicator& processes, int from, int tag, std::int64_t bytes);

  /// Whether all of it was handed out.
  bool done() const { return taken_ == bytes_; }

  /// Waits for the next message; it stays until the next call.
  std::span<std::byte> next();

 private:
  struct Room {
    std::vector<std::byte> bytes;
    comm::Pending coming = {};
  };
  void post(Room& room);

  comm::Communicator& processes_;
  int from_;
  int tag_;
  std::int64_t bytes_;
  std::int64_t posted_ = 0;
  std::int64_t taken_ = 0;
  std::array<Room, 2> rooms_;
  std::size_t current_ = 0;
};

}  // namespace cleave::train
