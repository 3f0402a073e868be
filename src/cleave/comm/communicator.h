#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "cleave/comm/pending.h"
#include "cleave/comm/transport.h"

namespace cleave::comm {

/// Tags of messages are in [0, kTags); what lies above belongs to the collectives.
inline constexpr int kTags = 1 << 22;

/// A fixed, ordered set of devices that can talk to each other: one device's view of it.
///
/// Ranks are positions in this group. Used by the thread of its device only; must not outlive the
/// LocalWorld or MpiSession it comes from.
class Communicator {
 public:
  /// The group of all devices of the transport.
  explicit Communicator(Transport& transport);

  int rank() const { return rank_; }
  int size() const { return static_cast<int>(devices_.size()); }

  /// The number of member `rank` among all devices of the run.
  int device(int rank) const { return devices_.at(rank); }

  /// Only posts. Completes once the receiver has posted its receive and the bytes have moved: no
  /// buffering, not even of the smallest message. Messages with the same peer and tag match in the
  /// order in which they are posted; sizes must be equal.
  Pending send(std::span<const std::byte> bytes, int to, int tag);
  Pending receive(std::span<std::byte> bytes, int from, int tag);

  /// Moves on what is in flight. Call it now and then while computing: neither large MPI messages
  /// nor collectives get anywhere on their own.
  void progress() { transport_->progress(); }

  /// The sub-communicator of `members` (ranks here, in the new order, this one among them), with a
  /// tag space of its own. All members call it, in the same order.
  std::unique_ptr<Communicator> group(std::span<const int> members);

  /// What this device sent so far, over all its groups.
  const Sent& sent() const { return transport_->sent(); }

 private:
  Communicator(Transport& transport, int context, std::vector<int> devices);

  Pending post(Message message, Traffic traffic);

  Transport* transport_;
  int context_ = 0;
  std::vector<int> devices_;  ///< [rank] -> device
  int rank_ = -1;
};

}  // namespace cleave::comm
