#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "cleave/comm/exchange_log.h"
#include "cleave/tensor/memory.h"

namespace cleave::comm {

inline constexpr int kNobody = -1;

/// How long a device is usually waited for before it counts as lost.
inline constexpr std::chrono::minutes kUsualPatience{5};

/// Something in flight: one message, or a collective made of many. Lives in a pool of its
/// transport, so that starting one allocates nothing once the pool has grown to its working size.
class Operation {
 public:
  Operation() = default;
  Operation(const Operation&) = delete;
  Operation& operator=(const Operation&) = delete;
  virtual ~Operation() = default;

  /// Does what can be done without waiting; true once complete, and from then on. Throws DeviceLost
  /// when it can never complete.
  virtual bool advance() = 0;

  /// Gives the operation back to its pool. One that is not complete is withdrawn first: nobody
  /// touches its buffer any more.
  virtual void release() noexcept = 0;

  /// "receive of 4096 B from device 2, tag 7".
  virtual std::string describe() const = 0;

  /// A device that must do something before this can complete; kNobody if there is none.
  virtual int awaited() const = 0;
};

enum class Direction : std::uint8_t { Send, Receive };

/// What a device posts: bytes, and where they go to or come from.
struct Message {
  Direction direction = Direction::Send;
  int context = 0;  ///< the group's own tag space
  int peer = 0;     ///< device number
  int member = 0;   ///< the peer's rank in the group
  int tag = 0;
  std::span<std::byte> bytes;  ///< only read when sending

  /// Where they pass through the host, if the transport cannot reach them: as many bytes; null:
  /// wherever there is room.
  std::byte* on_host = nullptr;
  bool is_on_host = false;  ///< what is sent is there already
};

std::string describe(const Message& message);

/// What bytes were sent for.
enum class Traffic : std::uint8_t { Message, Reduce, Gather, Numbers };

/// Payload bytes that this device sent since it started, over all its groups.
struct Sent {
  std::int64_t message = 0;  ///< by send()
  std::int64_t reduce = 0;   ///< by reduce_scatter() and all_reduce()
  std::int64_t gather = 0;   ///< by all_gather() and broadcast()
  std::int64_t numbers = 0;  ///< by combine()

  std::int64_t total() const { return message + reduce + gather + numbers; }
  friend Sent operator+(const Sent& a, const Sent& b) {
    return {a.message + b.message, a.reduce + b.reduce, a.gather + b.gather, a.numbers + b.numbers};
  }
  friend Sent operator-(const Sent& a, const Sent& b) {
    return {a.message - b.message, a.reduce - b.reduce, a.gather - b.gather, a.numbers - b.numbers};
  }
  friend bool operator==(const Sent&, const Sent&) = default;
};

class Staging;

/// One device's end of a transport: what all communicators of the device share. Used by the thread
/// of its device only.
class Transport {
 public:
  Transport();
  virtual ~Transport();

  virtual int device() const = 0;
  virtual int devices() const = 0;

  /// Starts a message. A send completes only once its receive is posted and the bytes have moved.
  virtual Operation& post(const Message& message) = 0;

  /// The same, also if the bytes lie in the memory that set_memory() named.
  Operation& start(const Message& message);

  /// The host's memory that messages passed through which had no place there: it is in no plan.
  std::int64_t unplanned_host_bytes() const;

  /// Where the device has its tensors, if not on the host: messages pass through buffers then. It
  /// must outlive what is in flight; the host's memory ends it.
  void set_memory(Memory& memory);

  /// A new tag space for `devices`, all of whom call this in the same order.
  virtual int open_context(int parent, std::span<const int> devices) = 0;

  /// Moves on whatever is in flight, without waiting.
  void progress();

  /// False when `deadline` passed first.
  bool wait(Operation& wanted, Clock::time_point deadline);

  /// The watchdog: throws DeviceLost when `patience` passed first, with who waits for whom.
  void wait(Operation& wanted);

  virtual bool give_way() { return false; }

  /// Whether a message leaves only once word of its receive has travelled to the sender.
  virtual bool sends_credits() const { return false; }

  /// How long wait() takes a device that does not answer for alive; no limit at first. Time during
  /// which this device was itself stopped does not count.
  void set_patience(Clock::duration patience) { patience_ = patience; }

  /// For so many more in flight at once, so that none of them allocates.
  void make_room(std::size_t collectives, std::size_t messages) {
    collectives_.reserve(collectives_.capacity() + collectives);
    make_room_for(messages);
  }

  /// Collectives advance whenever the device waits or makes progress, not only when waited for.
  void enlist(Operation& collective) { collectives_.push_back(&collective); }
  void discharge(Operation& collective) noexcept;

  void count(Traffic traffic, std::int64_t bytes);
  const Sent& sent() const { return sent_; }

  ExchangeLog& log() { return log_; }
  const ExchangeLog& log() const { return log_; }

 protected:
  /// What idle() needs to know about the wait it is part of.
  struct Wait {
    Operation& wanted;
    Clock::time_point deadline;
    Clock::time_point start;
    std::uint64_t seen = 0;  ///< events before the last look
  };

  /// Whom `device` waits for: kNobody if it does not wait, nothing if it does not say.
  virtual std::optional<int> ask_awaited(int device, Clock::time_point deadline) = 0;

  /// Whom this device waits for at the moment, or waited for last if in vain. From any thread.
  int awaited() const { return awaited_.load(std::memory_order_relaxed); }

  /// How often this device has looked up while it waited: one that is stopped does not. From any
  /// thread.
  std::uint64_t looks() const { return looks_.load(std::memory_order_relaxed); }
  void look() { looks_.fetch_add(1, std::memory_order_relaxed); }

  virtual void make_room_for(std::size_t messages) = 0;
  virtual void progress_messages() {}
  virtual void begin_wait(const Operation& /*wanted*/) {}
  virtual void end_wait() noexcept {}

  /// Takes back what idle() gave away, before the device goes on after a wait; past the deadline it
  /// goes on without.
  virtual void regain(Clock::time_point /*deadline*/) {}
  virtual std::uint64_t events() const { return 0; }

  /// Lets the core go until there may be news or the deadline passed.
  virtual void idle(Wait& wait) = 0;

 private:
  void advance_collectives();

  /// False when `patience` passed first.
  bool wait_for(Operation& wanted, Clock::duration patience);

  std::string who_waits(int first, Clock::time_point deadline);

  std::unique_ptr<Staging> staging_;  ///< null: all tensors are on the host
  std::vector<Operation*> collectives_;
  Clock::duration patience_ = Clock::duration::max();
  std::atomic<int> awaited_ = kNobody;
  std::atomic<std::uint64_t> looks_ = 0;
  Sent sent_;
  ExchangeLog log_;
};

}  // namespace cleave::comm
