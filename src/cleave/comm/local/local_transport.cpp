#include "cleave/comm/local/local_transport.h"

#include <algorithm>
#include <cstring>
#include <thread>

#include "cleave/base/check.h"

namespace cleave::comm {
namespace {

// Below this a copy costs less than telling somebody else to make it.
constexpr std::size_t kHandOver = 16 * 1024;

// Long enough to catch an answer that is on its way, short enough not to matter to a device that
// wants the same core.
constexpr std::chrono::microseconds kSpin{2};

void pause() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#endif
}

}  // namespace

// ── One message ──────────────────────────────────────────────────────────────────────────────────

bool LocalTransfer::advance() {
  // Asked before the state is read: what a peer did before it left must not look undone.
  const bool peer_left = owner_.shared_.has_left(message_.peer);
  if (state_.load(std::memory_order_acquire) == State::Posted) {
    owner_.shared_.check_running(owner_.device_, message_);
    if (peer_left) {
      throw DeviceLost(detail::concat("device ", message_.peer, " has finished; device ",
                                      owner_.device_, " still waits for its ", describe()));
    }
  }
  if (state_.load(std::memory_order_acquire) == State::Matched && claim()) copy();
  return state_.load(std::memory_order_acquire) == State::Done;
}

bool LocalTransfer::claim() {
  const std::lock_guard lock(owner_.mailbox_of(message_).mailbox_);
  if (state_.load(std::memory_order_relaxed) != State::Matched) return false;
  state_.store(State::Copying, std::memory_order_relaxed);
  partner_->state_.store(State::Copying, std::memory_order_relaxed);
  return true;
}

void LocalTransfer::copy() {
  const bool sends = message_.direction == Direction::Send;
  const LocalTransfer& from = sends ? *this : *partner_;
  const LocalTransfer& to = sends ? *partner_ : *this;
  if (!from.message_.bytes.empty()) {
    std::memcpy(to.message_.bytes.data(), from.message_.bytes.data(), from.message_.bytes.size());
  }
  LocalTransport& other = partner_->owner_;
  partner_->state_.store(State::Done, std::memory_order_release);
  other.notify();
  state_.store(State::Done, std::memory_order_release);
}

void LocalTransfer::release() noexcept {
  LocalTransport& mailbox = owner_.mailbox_of(message_);
  if (state_.load(std::memory_order_acquire) != State::Done) {
    const std::lock_guard lock(mailbox.mailbox_);
    if (state_.load(std::memory_order_relaxed) == State::Posted) {
      std::erase(mailbox.unmatched_, this);
      state_.store(State::Done, std::memory_order_relaxed);
    }
  }
  if (state_.load(std::memory_order_acquire) == State::Matched && claim()) copy();
  while (state_.load(std::memory_order_acquire) != State::Done) std::this_thread::yield();
  owner_.pool_.give_back(*this);
}

// ── One device ───────────────────────────────────────────────────────────────────────────────────

LocalTransport::LocalTransport(LocalShared& shared, int device) : shared_(shared), device_(device) {
  unmatched_.reserve(64);
}

LocalTransport& LocalTransport::mailbox_of(const Message& message) {
  return message.direction == Direction::Send ? shared_.transport(message.peer) : *this;
}

// Called on the mailbox, under its lock. The first that fits, in the order of posting.
LocalTransfer* LocalTransport::take_match(const LocalTransfer& arriving) {
  const Message& message = arriving.message_;
  const auto fits = [&](const LocalTransfer* other) {
    return other->message_.direction != message.direction &&
           other->message_.peer == arriving.owner_.device_ &&
           other->owner_.device_ == message.peer && other->message_.context == message.context &&
           other->message_.tag == message.tag;
  };
  const auto found = std::find_if(unmatched_.begin(), unmatched_.end(), fits);
  if (found == unmatched_.end()) return nullptr;
  LocalTransfer* partner = *found;
  CLEAVE_CHECK(partner->message_.bytes.size() == message.bytes.size(), "device ",
               arriving.owner_.device_, ": ", describe(message), " meets a ",
               describe(partner->message_));
  unmatched_.erase(found);
  return partner;
}

Operation& LocalTransport::post(const Message& message) {
  shared_.check_running(device_, message);
  using State = LocalTransfer::State;
  LocalTransfer& arriving = pool_.acquire(*this);
  arriving.message_ = message;
  LocalTransport& mailbox = mailbox_of(message);
  bool copy_now = false;
  LocalTransfer* partner = nullptr;
  {
    const std::lock_guard lock(mailbox.mailbox_);
    partner = mailbox.take_match(arriving);
    arriving.partner_ = partner;
    if (partner == nullptr) {
      arriving.state_.store(State::Posted, std::memory_order_relaxed);
      mailbox.unmatched_.push_back(&arriving);
    } else {
      // A peer that sleeps for this very message may as well copy it, while we go on computing.
      copy_now = message.bytes.size() < kHandOver || partner->owner_.wanted_.load() != partner;
      const State state = copy_now ? State::Copying : State::Matched;
      partner->partner_ = &arriving;
      arriving.state_.store(state, std::memory_order_relaxed);
      partner->state_.store(state, std::memory_order_release);
    }
  }
  if (copy_now) {
    arriving.copy();
  } else if (partner != nullptr) {
    shared_.transport(message.peer).notify();
  }
  return arriving;
}

void LocalTransport::notify() {
  {
    const std::lock_guard lock(sleep_);
    events_.fetch_add(1, std::memory_order_release);
  }
  news_.notify_one();
}

void LocalTransport::idle(Wait& wait) {
  const auto until = std::min(wait.deadline, Clock::now() + kSpin);
  do {
    for (int i = 0; i < 16; ++i) {
      if (events() != wait.seen) return;
      pause();
    }
  } while (Clock::now() < until);

  std::unique_lock lock(sleep_);
  const auto changed = [&] { return events() != wait.seen; };
  if (wait.deadline == Clock::time_point::max()) {
    news_.wait(lock, changed);
  } else {
    news_.wait_until(lock, wait.deadline, changed);
  }
}

}  // namespace cleave::comm
