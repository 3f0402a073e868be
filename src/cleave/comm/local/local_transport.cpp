#include "cleave/comm/local/local_transport.h"

#include <algorithm>
#include <cstring>
#include <thread>

#include "cleave/base/check.h"

namespace cleave::comm {
namespace {

// Below this a copy costs less than telling somebody else to make it.
constexpr std::size_t kHandOver = 16 * 1024;

// Small enough that two who share a copy finish together, large enough for memcpy at full speed.
constexpr std::size_t kPiece = 64 * 1024;

// As long as going to sleep and being woken takes: a wait is at most twice as long as it must be.
// Where devices share cores somebody else can use the time.
constexpr std::chrono::microseconds kSpinAlone{20}, kSpinShared{1};

// However little of the patience is left, nobody is said not to answer before this has passed.
constexpr std::chrono::milliseconds kLeastAnswer{500};

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
  if (is(State::Posted)) {
    owner_.shared_.check_running(owner_.device_, message_);
    if (peer_left) {
      throw DeviceLost(detail::concat("device ", message_.peer, " has finished; device ",
                                      owner_.device_, " still waits for its ", describe()));
    }
  }
  if (is(State::Matched)) help_copying();
  return is(State::Done);
}

// Under the mailbox's lock.
void LocalTransfer::match(LocalTransfer& partner) {
  partner_ = &partner;
  partner.partner_ = this;
  receiver().copied_.store(0, std::memory_order_relaxed);
  receiver().helpers_ = 0;
  state_.store(State::Matched, std::memory_order_release);
  partner.state_.store(State::Matched, std::memory_order_release);
}

void LocalTransfer::help_copying() {
  {
    const std::lock_guard lock(owner_.mailbox_of(message_).mailbox_);
    if (!is(State::Matched)) return;
    // Nothing left to take: the other end is at its last piece. An empty message has no pieces.
    if (receiver().helpers_ > 0 && receiver().copied_.load() >= message_.bytes.size()) return;
    ++receiver().helpers_;
  }
  copy_pieces();
}

// As a helper. The last one to find nothing left declares the message complete.
void LocalTransfer::copy_pieces() {
  LocalTransfer& to = receiver();
  const std::span<const std::byte> from = to.partner_->message_.bytes;
  for (;;) {
    const std::size_t begin = to.copied_.fetch_add(kPiece, std::memory_order_relaxed);
    if (begin >= from.size()) break;
    std::memcpy(to.message_.bytes.data() + begin, from.data() + begin,
                std::min(kPiece, from.size() - begin));
  }
  LocalTransport& other = partner_->owner_;
  {
    const std::lock_guard lock(owner_.mailbox_of(message_).mailbox_);
    if (--to.helpers_ > 0) return;
    state_.store(State::Done, std::memory_order_release);
    partner_->state_.store(State::Done, std::memory_order_release);
  }
  other.notify();
}

void LocalTransfer::release() noexcept {
  {
    LocalTransport& mailbox = owner_.mailbox_of(message_);
    const std::lock_guard lock(mailbox.mailbox_);
    if (is(State::Posted)) {
      std::erase(mailbox.unmatched_, this);
      state_.store(State::Done, std::memory_order_relaxed);
    }
  }
  // The peer may be in the middle of our buffer, or count on us to copy: see it through.
  if (is(State::Matched)) help_copying();
  while (!is(State::Done)) std::this_thread::yield();
  owner_.pool_.give_back(*this);
}

// ── One device ───────────────────────────────────────────────────────────────────────────────────

LocalTransport::LocalTransport(LocalShared& shared, int device)
    : shared_(shared), device_(device), spin_(shared.cores_suffice() ? kSpinAlone : kSpinShared) {
  unmatched_.reserve(64);
}

void LocalTransport::make_room_for(std::size_t messages) {
  pool_.prepare(messages, *this);
  const std::lock_guard lock(mailbox_);
  unmatched_.reserve(unmatched_.capacity() + messages);
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
  LocalTransfer& arriving = pool_.acquire(*this);
  arriving.message_ = message;
  LocalTransport& mailbox = mailbox_of(message);
  LocalTransfer* partner = nullptr;
  bool hand_over = false;
  {
    const std::lock_guard lock(mailbox.mailbox_);
    partner = mailbox.take_match(arriving);
    if (partner == nullptr) {
      arriving.state_.store(LocalTransfer::State::Posted, std::memory_order_relaxed);
      mailbox.unmatched_.push_back(&arriving);
      return arriving;
    }
    arriving.match(*partner);
    // A partner that has given its core away would queue for one to copy.
    hand_over = shared_.cores() == nullptr && message.bytes.size() >= kHandOver &&
                partner->owner_.wanted_.load() == partner;
    if (!hand_over) ++arriving.receiver().helpers_;
  }
  if (hand_over) {
    shared_.transport(message.peer).notify();
  } else {
    arriving.copy_pieces();
  }
  return arriving;
}

void LocalTransport::notify() {
  {
    const std::lock_guard lock(sleep_);
    events_.fetch_add(1, std::memory_order_release);
  }
  news_.notify_one();
  if (shared_.cores() != nullptr) shared_.cores()->wake(device_);
}

std::optional<int> LocalTransport::ask_awaited(int device, Clock::time_point deadline) {
  const LocalTransport& other = shared_.transport(device);
  // Who waits looks up every few milliseconds, later where others compute on its core.
  deadline = std::max(deadline, Clock::now() + kLeastAnswer);
  const std::uint64_t looks = other.looks();
  while (other.awaited() != kNobody && other.looks() == looks) {
    if (Clock::now() >= deadline) return std::nullopt;  // a thread that is stopped in its wait
    look();  // who asks lives, also for those who ask about it at the same time
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  return other.awaited();
}

void LocalTransport::regain(Clock::time_point deadline) {
  if (SharedCores* cores = shared_.cores()) cores->regain(device_, deadline);
}

bool LocalTransport::give_way() {
  if (shared_.cores() == nullptr) return false;
  shared_.cores()->give_way(device_);
  return true;
}

void LocalTransport::idle(Wait& wait) {
  if (SharedCores* cores = shared_.cores())
    return cores->sleep(device_, {.events = events_, .seen = wait.seen, .deadline = wait.deadline});
  const auto until = std::min(wait.deadline, Clock::now() + spin_);
  do {
    for (int i = 0; i < 32; ++i) {
      if (events() != wait.seen) return;
      pause();
    }
    std::this_thread::yield();  // the peer may have been put on this very core
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
