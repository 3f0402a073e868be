#include "cleave/comm/transport.h"

#include <algorithm>

#include "cleave/base/check.h"
#include "cleave/base/units.h"
#include "cleave/comm/staged_message.h"

namespace cleave::comm {
namespace {

constexpr std::chrono::seconds kLongestInquiry{1};

/// A device that waits looks up at least this often. Time that passes between two looks beyond
/// twice that was not spent waiting: the device was stopped itself, perhaps with the whole job.
constexpr std::chrono::milliseconds kLongestSlice{100};
constexpr int kSlices = 64;

constexpr Clock::duration kNoLimit = Clock::duration::max();

}  // namespace

std::string describe(const Message& message) {
  const bool sends = message.direction == Direction::Send;
  return detail::concat(sends ? "send of " : "receive of ", message.bytes.size(), " B ",
                        sends ? "to" : "from", " device ", message.peer, ", tag ", message.tag);
}

Transport::Transport() = default;
Transport::~Transport() = default;

void Transport::set_memory(Memory& memory) {
  staging_ = &memory == &host_memory() ? nullptr : std::make_unique<Staging>(memory);
}

Operation& Transport::start(const Message& message) {
  if (staging_ == nullptr || staging_->memory().on_host(message.bytes.data())) return post(message);
  return staging_->post(*this, message);
}

std::int64_t Transport::unplanned_host_bytes() const {
  return staging_ == nullptr ? 0 : staging_->unplanned_bytes();
}

void Transport::advance_collectives() {
  for (Operation* collective : collectives_) collective->advance();
}

void Transport::progress() {
  const ExchangeLog::Stay stay(log_);
  progress_messages();
  advance_collectives();
}

bool Transport::wait(Operation& wanted, Clock::time_point deadline) {
  const bool forever = deadline == Clock::time_point::max();
  return wait_for(wanted, forever ? kNoLimit : deadline - Clock::now());
}

bool Transport::wait_for(Operation& wanted, Clock::duration patience) {
  const ExchangeLog::Stay stay(log_);
  struct Scope {
    Transport& transport;
    ~Scope() { transport.end_wait(); }
  };
  const bool forever = patience == kNoLimit;
  const Clock::duration slice = std::min<Clock::duration>(patience / kSlices, kLongestSlice);
  Wait wait{.wanted = wanted, .deadline = Clock::time_point::max(), .start = Clock::now()};
  begin_wait(wanted);
  const Scope scope{*this};
  Clock::duration waited{};
  for (Clock::time_point last = wait.start;;) {
    look();
    wait.seen = events();  // before the look, so that news after it is not slept through
    advance_collectives();
    if (wanted.advance()) break;  // last: what it completes itself makes no news
    if (!forever) {
      const Clock::time_point now = Clock::now();
      waited += std::min(now - last, 2 * slice);
      last = now;
      if (waited >= patience) return false;
      wait.deadline = now + std::min(slice, patience - waited);
    }
    awaited_.store(wanted.awaited(), std::memory_order_relaxed);
    idle(wait);
  }
  awaited_.store(kNobody, std::memory_order_relaxed);
  const Clock::time_point now = Clock::now();
  regain(patience_ < Clock::time_point::max() - now ? now + patience_ : Clock::time_point::max());
  return true;
}

// Who waits for whom is asked before the time is up, so that the answer is there in time.
void Transport::wait(Operation& wanted) {
  const Clock::duration inquiry = std::min<Clock::duration>(patience_ / 4, kLongestInquiry);
  if (patience_ == kNoLimit) {
    wait_for(wanted, kNoLimit);
    return;
  }
  if (wait_for(wanted, patience_ - inquiry)) return;
  const int first = wanted.awaited();
  const std::string others = first == kNobody ? "" : who_waits(first, Clock::now() + inquiry);
  if (wait_for(wanted, inquiry)) return;
  const std::chrono::duration<double> patience = patience_;
  throw DeviceLost(detail::concat("device ", device(), " has waited ",
                                  format_seconds(patience.count()), " for its ", wanted.describe(),
                                  others));
}

/// "; device 1 waits for device 2, device 2 does not answer", or the cycle that they form.
std::string Transport::who_waits(int first, Clock::time_point deadline) {
  std::vector<int> seen = {device()};
  std::string text;
  for (int at = first;;) {
    seen.push_back(at);
    const std::optional<int> next = ask_awaited(at, deadline);
    text += detail::concat(text.empty() ? "; device " : ", device ", at);
    if (!next) return text + " does not answer: it computes, hangs or is stopped";
    if (*next == kNobody) return text + " waits for nobody: it computes or hangs";
    text += detail::concat(" waits for device ", *next);
    if (std::ranges::find(seen, *next) != seen.end())
      return text + ": they wait for each other in a circle";
    at = *next;
  }
}

void Transport::discharge(Operation& collective) noexcept {
  collectives_.erase(std::remove(collectives_.begin(), collectives_.end(), &collective),
                     collectives_.end());
}

void Transport::count(Traffic traffic, std::int64_t bytes) {
  switch (traffic) {
    case Traffic::Message:
      sent_.message += bytes;
      break;
    case Traffic::Reduce:
      sent_.reduce += bytes;
      break;
    case Traffic::Gather:
      sent_.gather += bytes;
      break;
    case Traffic::Numbers:
      sent_.numbers += bytes;
      break;
  }
}

}  // namespace cleave::comm
