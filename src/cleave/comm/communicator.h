#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "cleave/comm/host_room.h"
#include "cleave/comm/pending.h"
#include "cleave/comm/transport.h"

namespace cleave::comm {

/// Tags of messages are in [0, kTags); what lies above belongs to the collectives.
inline constexpr int kTags = 1 << 22;

class Adder;
class Collective;

/// Slices of a sum start at multiples of this many bytes.
inline constexpr std::size_t kReduceGrain = 64;

/// What a member brings to a sum over its group.
struct Reduction {
  std::span<std::byte> values;     ///< its contribution; replaced by the sum
  std::span<std::byte> workspace;  ///< as long on every member; small ones take more rounds
  const Adder& adder;              ///< must outlive the operation
  HostRoom on_host = {};           ///< see host_room.h
};

/// The workspace with which a sum of `bytes` over `members` devices takes a single round. The least
/// that will do is kReduceGrain for each other member.
std::size_t single_round_workspace(std::size_t bytes, int members);

/// Where the slices of `bytes` begin, at multiples of kReduceGrain; the last border is the end.
std::vector<std::size_t> even_borders(std::size_t bytes, int members);

enum class Combine : std::uint8_t { Sum, Max, Min };

/// How many messages of all the numbers member `rank` sends in combine(): at most one for each of
/// log2(members) rounds, but for those who stand in for missing ones.
int combine_messages(int rank, int members);

/// Whom member `rank` hears from in the round of combine() with this distance, which is 1, 2, 4 and
/// so on below the members; -1: from nobody.
int combine_partner(int rank, int distance, int members);

/// A fixed, ordered set of devices that can talk to each other: one device's view of it.
///
/// Ranks are positions in this group. Used by the thread of its device only; must not outlive the
/// LocalWorld or MpiSession it comes from.
class Communicator {
 public:
  /// The group of all devices of the transport.
  explicit Communicator(Transport& transport);
  ~Communicator();
  Communicator(const Communicator&) = delete;
  Communicator& operator=(const Communicator&) = delete;

  int rank() const { return rank_; }
  int size() const { return static_cast<int>(devices_.size()); }

  /// The number of member `rank` among all devices of the run.
  int device(int rank) const { return devices_.at(rank); }

  /// Only posts. Completes once the receiver has posted its receive and the bytes have moved: no
  /// buffering, not even of the smallest message. Messages with the same peer and tag match in the
  /// order in which they are posted; sizes must be equal.
  Pending send(std::span<const std::byte> bytes, int to, int tag);
  Pending receive(std::span<std::byte> bytes, int from, int tag);

  /// Where this device has its tensors, in all its groups; see Transport.
  void set_memory(Memory& memory) { transport_->set_memory(memory); }

  /// See Transport.
  std::int64_t unplanned_host_bytes() const { return transport_->unplanned_host_bytes(); }

  /// Moves on what is in flight. Call it now and then while computing: neither large MPI messages
  /// nor collectives get anywhere on their own.
  void progress() { transport_->progress(); }

  /// Where devices take turns on cores, lets those go first who queue for one. False where they do
  /// not.
  bool give_way() { return transport_->give_way(); }

  /// See Transport.
  bool sends_credits() const { return transport_->sends_credits(); }

  /// For so many collectives, and messages beside them, more in flight at once: none of them
  /// allocates then.
  void make_room(std::size_t collectives, std::size_t messages = 0);

  /// The sub-communicator of `members` (ranks here, in the new order, this one among them), with a
  /// tag space of its own. All members call it, in the same order.
  std::unique_ptr<Communicator> group(std::span<const int> members);

  // Collectives: every member calls each of them, in the same order. They may overlap.

  /// Complete once every member has called it.
  Pending barrier();

  /// `bytes` of member `root`, to everyone.
  Pending broadcast(std::span<std::byte> bytes, int root);

  /// Member i's slice of `whole`, [borders[i], borders[i+1]) in bytes, to everyone.
  Pending all_gather(std::span<std::byte> whole, std::span<const std::size_t> borders,
                     HostRoom on_host = {});

  /// Member i's slice of `values` becomes the sum of that slice over the members, by tree_sum() in
  /// the order of their ranks. The rest of `values` is left as it was. Sends
  /// values − own slice bytes.
  Pending reduce_scatter(const Reduction& reduction, std::span<const std::size_t> borders);

  /// `values` becomes the sum over the members, with the same bits on each: 2n(N−1)/N bytes sent.
  Pending all_reduce(const Reduction& reduction);

  /// Combines a few numbers over the members and waits for the result, the same on each; sums by
  /// the tree of tree_sum() in the order of the ranks. Takes log2(size) rounds, in which everyone
  /// hears from one other member.
  void combine(std::span<double> values, Combine how);

  /// The watchdog of this device, in all its groups: how long a wait may take before the device
  /// that is waited for counts as lost.
  void set_patience(Clock::duration patience) { transport_->set_patience(patience); }

  /// What this device sent so far, over all its groups.
  const Sent& sent() const { return transport_->sent(); }

  /// The collectives of this device, over all its groups, but for barrier() and combine().
  ExchangeLog& log() { return transport_->log(); }
  const ExchangeLog& log() const { return transport_->log(); }

 private:
  friend class Collective;
  struct Collectives;

  Communicator(Transport& transport, int context, std::vector<int> devices);

  Pending post(Message message, Traffic traffic);
  Transport& transport() { return *transport_; }
  Collective& new_collective();
  int next_tag();
  void give_back(Collective& collective) noexcept;
  void check_borders(std::span<const std::size_t> borders, std::size_t bytes) const;

  Transport* transport_;
  int context_ = 0;
  std::vector<int> devices_;  ///< [rank] -> device
  int rank_ = -1;
  std::unique_ptr<Collectives> collectives_;
};

}  // namespace cleave::comm
