#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "cleave/comm/tcp/early_arrivals.h"

namespace cleave::comm {

class TcpTransfer;

/// Which sends and receives of a link meet: by their key, and those of one key in the order in
/// which they were posted. A message leaves once word of its receive has come, its credit; as far
/// as there is room at the other end, before that.
class Rendezvous {
 public:
  Rendezvous(int device, std::uint64_t early_bytes);

  /// For so many more at once, so that none of them allocates.
  void make_room(std::size_t messages);

  /// Done at once if its message is here already. The other end is to be told either way: it has
  /// the room for another message again.
  void post_receive(TcpTransfer& transfer);

  /// True if it may leave now; otherwise take_credit() tells when.
  bool post_send(TcpTransfer& transfer);

  /// The send that may leave now; null if there is none, or it has left before. Throws
  /// ProtocolError.
  TcpTransfer* take_credit(const MessageKey& key, std::uint64_t length);

  /// Where the bytes of a message go that begins to arrive. Throws ProtocolError if none is due.
  std::span<std::byte> begin_data(const MessageKey& key, std::uint64_t length);
  void end_data(const MessageKey& key);

  /// The message that has begun to arrive comes again from its start.
  void forget_begun();

  /// True if it has begun to arrive.
  bool withdraw(TcpTransfer& transfer) noexcept;

 private:
  struct CreditHeld {
    MessageKey key;
    std::uint64_t length = 0;
  };

  void check_length(const TcpTransfer& transfer, std::uint64_t length) const;

  int device_;
  std::vector<TcpTransfer*> receives_;
  TcpTransfer* filling_ = nullptr;   ///< whose message is arriving
  std::vector<TcpTransfer*> sends_;  ///< without credit yet
  std::vector<CreditHeld> credits_;
  EarlyArrivals arrivals_;
  EarlyDepartures departures_;
};

}  // namespace cleave::comm
