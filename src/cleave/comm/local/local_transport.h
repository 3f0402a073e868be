#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "cleave/comm/local/shared_cores.h"
#include "cleave/comm/pool.h"
#include "cleave/comm/transport.h"

namespace cleave::comm {

class LocalShared;
class LocalTransport;

/// One end of a message between two threads.
///
///     Posted ──the other end arrives──▶ Matched ──all bytes copied──▶ Done
///
/// Whoever has nothing better to do copies: the end that arrives second, unless the first sleeps
/// for this message already, and either end as soon as it waits. They share the work piece by
/// piece. State and helpers of both ends change together, under the mailbox of the receiving
/// device; an end that is told Done is not touched by the other any more.
class LocalTransfer final : public Operation {
 public:
  explicit LocalTransfer(LocalTransport& owner) : owner_(owner) {}

  bool advance() override;
  void release() noexcept override;
  std::string describe() const override { return comm::describe(message_); }
  int awaited() const override { return message_.peer; }

 private:
  friend class LocalTransport;
  enum class State : std::uint8_t { Posted, Matched, Done };

  bool is(State state) const { return state_.load(std::memory_order_acquire) == state; }
  LocalTransfer& receiver() { return message_.direction == Direction::Receive ? *this : *partner_; }
  void match(LocalTransfer& partner);
  void help_copying();
  void copy_pieces();

  LocalTransport& owner_;
  Message message_;
  std::atomic<State> state_ = State::Done;
  LocalTransfer* partner_ = nullptr;

  // How far the copy is; the receiving end has these.
  std::atomic<std::size_t> copied_ = 0;  ///< bytes done or being done
  int helpers_ = 0;                      ///< ends that are copying
};

/// What the devices of one process share besides their mailboxes.
class LocalShared {
 public:
  LocalShared(int devices, std::vector<HardwareThreads> places);

  int size() const { return static_cast<int>(left_.size()); }

  /// Whether every device can have a core to itself.
  bool cores_suffice() const;

  /// Null where devices do not take turns.
  SharedCores* cores() { return cores_ ? &*cores_ : nullptr; }

  LocalTransport& transport(int device) { return *transports_.at(device); }

  int open_context(int parent, std::span<const int> devices, int caller);
  void leave(int device);
  void abort(int device, std::string_view reason);

  bool has_left(int device) const { return left_[device].load(std::memory_order_acquire); }

  /// Throws DeviceLost if the run was aborted while `device` waits for `message`.
  void check_running(int device, const Message& message) const;

 private:
  void wake_all();

  std::optional<SharedCores> cores_;
  std::vector<std::unique_ptr<LocalTransport>> transports_;
  std::mutex mutex_;  // guards what follows, except the atomics
  std::map<std::pair<int, std::vector<int>>, std::vector<int>> contexts_;
  std::map<std::pair<int, std::vector<int>>, std::map<int, std::size_t>> calls_;
  int next_context_ = 1;
  std::atomic<bool> aborted_ = false;
  std::string reason_;
  int aborted_by_ = -1;
  std::vector<std::atomic<bool>> left_;
};

/// A device's end of the local transport, and the mailbox of what is sent to it.
class LocalTransport final : public Transport {
 public:
  LocalTransport(LocalShared& shared, int device);

  int device() const override { return device_; }
  int devices() const override { return shared_.size(); }
  Operation& post(const Message& message) override;
  int open_context(int parent, std::span<const int> devices) override {
    return shared_.open_context(parent, devices, device_);
  }
  bool give_way() override;

  /// Something happened to one of this device's messages. From any thread.
  void notify();

 private:
  friend class LocalTransfer;

  LocalTransport& mailbox_of(const Message& message);
  LocalTransfer* take_match(const LocalTransfer& arriving);

  std::optional<int> ask_awaited(int device, Clock::time_point deadline) override;
  void make_room_for(std::size_t messages) override;
  void begin_wait(const Operation& wanted) override { wanted_.store(&wanted); }
  void end_wait() noexcept override { wanted_.store(nullptr); }
  std::uint64_t events() const override { return events_.load(std::memory_order_acquire); }
  void idle(Wait& wait) override;
  void regain(Clock::time_point deadline) override;

  LocalShared& shared_;
  int device_;
  Clock::duration spin_;  ///< before going to sleep
  Pool<LocalTransfer> pool_;

  std::mutex mailbox_;
  std::vector<LocalTransfer*> unmatched_;  ///< sends to, and receives of, this device, in order

  std::atomic<const Operation*> wanted_ = nullptr;  ///< what the device's thread sleeps for
  std::atomic<std::uint64_t> events_ = 0;
  std::mutex sleep_;
  std::condition_variable news_;
};

}  // namespace cleave::comm
