#include "cleave/comm/tcp/rendezvous.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "cleave/base/check.h"
#include "cleave/comm/tcp/frame.h"
#include "cleave/comm/tcp/tcp_transfer.h"

namespace cleave::comm {
namespace {

// A peer that posts more receives than any program has messages is not one of ours.
constexpr std::size_t kMostCredits = std::size_t{1} << 20;

constexpr std::size_t kUsually = 64;

}  // namespace

Rendezvous::Rendezvous(int device, std::uint64_t early_bytes)
    : device_(device), arrivals_(early_bytes), departures_(early_bytes) {
  receives_.reserve(kUsually);
  sends_.reserve(kUsually);
  credits_.reserve(kUsually);
}

void Rendezvous::make_room(std::size_t messages) {
  receives_.reserve(receives_.capacity() + messages);
  sends_.reserve(sends_.capacity() + messages);
  credits_.reserve(credits_.capacity() + messages);
}

void Rendezvous::post_receive(TcpTransfer& transfer) {
  const bool here = arrivals_.take(transfer.key(), [&](std::span<const std::byte> bytes) {
    check_length(transfer, bytes.size());
    std::ranges::copy(bytes, transfer.message_.bytes.begin());
    transfer.state_ = TcpTransfer::State::Done;
  });
  if (!here) receives_.push_back(&transfer);
}

bool Rendezvous::post_send(TcpTransfer& transfer) {
  const MessageKey key = transfer.key();
  const std::uint64_t length = transfer.message_.bytes.size();
  const auto credit = std::ranges::find(credits_, key, &CreditHeld::key);
  if (credit != credits_.end()) {
    check_length(transfer, credit->length);
    credits_.erase(credit);
    return true;
  }
  const bool is_next = std::ranges::find(sends_, key, &TcpTransfer::key) == sends_.end();
  if (!is_next || !departures_.has_room_for(length)) {
    sends_.push_back(&transfer);
    return false;
  }
  departures_.add(key, length);
  return true;
}

TcpTransfer* Rendezvous::take_credit(const MessageKey& key, std::uint64_t length) {
  if (const std::optional<std::uint64_t> left = departures_.take(key)) {
    CLEAVE_CHECK(*left == length, "device ", device_, ": a message of ", *left, " B with tag ",
                 key.tag, " meets a receive of ", length, " B");
    return nullptr;
  }
  const auto send = std::ranges::find(sends_, key, &TcpTransfer::key);
  if (send == sends_.end()) {
    if (credits_.size() >= kMostCredits) throw ProtocolError("more credit than a program can use");
    credits_.push_back({key, length});
    return nullptr;
  }
  TcpTransfer* const transfer = *send;
  sends_.erase(send);
  check_length(*transfer, length);
  return transfer;
}

std::span<std::byte> Rendezvous::begin_data(const MessageKey& key, std::uint64_t length) {
  const auto receive = std::ranges::find(receives_, key, &TcpTransfer::key);
  if (receive != receives_.end() && (*receive)->message_.bytes.size() == length) {
    filling_ = *receive;
    filling_->state_ = TcpTransfer::State::Moving;
    return filling_->message_.bytes;
  }
  std::optional<std::span<std::byte>> early;
  if (receive == receives_.end()) early = arrivals_.begin(key, length);
  if (!early)
    throw ProtocolError(detail::concat("data with tag ", key.tag, " and ", length,
                                       " B, which this device has given no credit for"));
  return *early;
}

/// A receive may have been posted while its message came in early.
void Rendezvous::end_data(const MessageKey& key) {
  if (filling_ != nullptr) {
    std::erase(receives_, filling_);
    std::exchange(filling_, nullptr)->state_ = TcpTransfer::State::Done;
    return;
  }
  arrivals_.end();
  const auto receive = std::ranges::find(receives_, key, &TcpTransfer::key);
  if (receive == receives_.end()) return;
  TcpTransfer& transfer = **receive;
  receives_.erase(receive);
  post_receive(transfer);
}

void Rendezvous::forget_begun() {
  if (filling_ != nullptr) filling_->state_ = TcpTransfer::State::Posted;
  filling_ = nullptr;
  arrivals_.forget_begun();
}

bool Rendezvous::withdraw(TcpTransfer& transfer) noexcept {
  std::erase(sends_, &transfer);
  std::erase(receives_, &transfer);
  if (filling_ != &transfer) return false;
  filling_ = nullptr;
  return true;
}

void Rendezvous::check_length(const TcpTransfer& transfer, std::uint64_t length) const {
  const bool sends = transfer.message_.direction == Direction::Send;
  CLEAVE_CHECK(length == transfer.message_.bytes.size(), "device ", device_, ": ",
               describe(transfer.message_), " meets a ", sends ? "receive" : "message", " of ",
               length, " B");
}

}  // namespace cleave::comm
