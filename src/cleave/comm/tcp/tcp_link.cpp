#include "cleave/comm/tcp/tcp_link.h"

#include <algorithm>
#include <bit>
#include <limits>
#include <utility>

#include "cleave/base/check.h"

namespace cleave::comm {
namespace {

// A peer that posts more receives than any program has messages is not one of ours.
constexpr std::size_t kMostCredits = std::size_t{1} << 20;

// Frames that nobody waits for are acknowledged by the dozen.
constexpr std::uint64_t kUnacknowledged = 32;

}  // namespace

TcpLink::TcpLink(int device, int peer, std::uint32_t epoch)
    : device_(device), peer_(peer), epoch_(epoch), frames_(64) {
  receives_.reserve(64);
  sends_.reserve(64);
  credits_.reserve(64);
}

// Where this end has one message, the other has up to three: credits count as well.
void TcpLink::make_room(std::size_t frames) {
  receives_.reserve(receives_.capacity() + frames);
  sends_.reserve(sends_.capacity() + frames);
  credits_.reserve(credits_.capacity() + frames);
  const std::size_t most = std::bit_ceil(2 * (frames_end_ - first_unseen_ + 2 * frames));
  if (most <= frames_.size()) return;
  std::vector<Outgoing> old(most);
  std::swap(old, frames_);
  for (std::uint64_t at = first_unseen_; at < frames_end_; ++at)
    frame(at) = old[at & (old.size() - 1)];
}

// ── Messages ─────────────────────────────────────────────────────────────────────────────────────

void TcpLink::post(TcpTransfer& transfer) {
  const Message& message = transfer.message_;
  transfer.state_ = TcpTransfer::State::Posted;
  if (message.direction == Direction::Receive) {
    receives_.push_back(&transfer);
    enqueue({.kind = FrameKind::Credit,
             .context = transfer.context_,
             .tag = message.tag,
             .length = message.bytes.size()},
            {}, nullptr);
  } else {
    const auto fits = [&](const CreditHeld& credit) {
      return credit.context == transfer.context_ && credit.tag == message.tag;
    };
    const auto credit = std::ranges::find_if(credits_, fits);
    if (credit == credits_.end()) {
      sends_.push_back(&transfer);
      return;
    }
    const CreditHeld taken = *credit;
    credits_.erase(credit);
    send_data(transfer, taken);
  }
  advance();
}

void TcpLink::send_data(TcpTransfer& transfer, const CreditHeld& credit) {
  const Message& message = transfer.message_;
  CLEAVE_CHECK(credit.length == message.bytes.size(), "device ", device_, ": ", describe(message),
               " meets a receive of ", credit.length, " B");
  transfer.state_ = TcpTransfer::State::Moving;
  enqueue({.kind = FrameKind::Data,
           .context = transfer.context_,
           .tag = message.tag,
           .length = message.bytes.size()},
          message.bytes, &transfer);
}

/// Happens only on the way to an end: what has begun cannot be taken back, so the connection goes.
void TcpLink::withdraw(TcpTransfer& transfer) noexcept {
  std::erase(sends_, &transfer);
  std::erase(receives_, &transfer);
  bool begun = filling_ == &transfer;
  for (std::uint64_t at = first_unseen_; at < frames_end_; ++at) {
    if (frame(at).transfer != &transfer) continue;
    frame(at).transfer = nullptr;
    begun = true;
  }
  transfer.state_ = TcpTransfer::State::Done;
  if (!begun) return;
  filling_ = nullptr;
  stream_.reset();
  lost_ = "device " + std::to_string(device_) + " gave up a message in the middle";
}

void TcpLink::enqueue(FrameHeader header, std::span<const std::byte> payload,
                      TcpTransfer* transfer) {
  if (frames_end_ - first_unseen_ == frames_.size()) make_room(frames_.size());
  header.epoch = epoch_;
  header.sequence = frames_end_;
  frame(frames_end_++) = {.header = header, .payload = payload, .transfer = transfer};
}

void TcpLink::acknowledge_until(std::uint64_t sequence) {
  const std::uint64_t unsent = writer_.in_payload() ? next_ - 1 : next_;
  if (sequence >= unsent) throw ProtocolError("it acknowledges a frame that was not sent");
  for (; first_unseen_ <= sequence; ++first_unseen_) {
    TcpTransfer* transfer = std::exchange(frame(first_unseen_).transfer, nullptr);
    if (transfer != nullptr) transfer->state_ = TcpTransfer::State::Done;
  }
}

void TcpLink::say_farewell(const std::string& reason) {
  own_farewell_ = reason;
  enqueue({.kind = FrameKind::Farewell, .length = own_farewell_.size()},
          std::as_bytes(std::span(own_farewell_)), nullptr);
  advance();
}

void TcpLink::ask_awaited() {
  asks_ = true;
  answer_.reset();
  advance();
}

void TcpLink::tell_awaited(int device) {
  answers_ = true;
  told_awaited_ = device;
  advance();
}

void TcpLink::check_alive(const TcpTransfer& transfer) const {
  if (!lost_.empty())
    throw DeviceLost(
        detail::concat(lost_, "; device ", device_, " was at its ", transfer.describe()));
  if (!farewell_) return;
  if (farewell_->empty())
    throw DeviceLost(detail::concat("device ", peer_, " has finished; device ", device_,
                                    " still waits for its ", transfer.describe()));
  throw DeviceLost(detail::concat("device ", peer_, " stopped (", *farewell_, ") while device ",
                                  device_, " was at its ", transfer.describe()));
}

// ── The connection ───────────────────────────────────────────────────────────────────────────────

void TcpLink::attach(Stream stream, FrameReader reader, std::uint64_t seen, Integrity integrity) {
  if (seen + 1 < first_unseen_ || seen >= frames_end_) {
    lose(detail::concat("device ", peer_, " has lost track of the messages: it saw ", seen,
                        " frames"));
    return;
  }
  disconnect("replaced by another");
  next_ = frames_end_;  // so that what the peer has seen may be acknowledged
  acknowledge_until(seen);
  next_ = seen + 1;
  stream_.emplace(std::move(stream));
  reader_ = std::move(reader);
  reader_.rely_on(integrity);
  writer_.rely_on(integrity);
}

void TcpLink::disconnect(const std::string& reason) {
  stream_.reset();
  last_break_ = reason;
  reader_.reset();
  if (filling_ != nullptr) filling_->state_ = TcpTransfer::State::Posted;
  filling_ = nullptr;
  writer_.reset();
  next_ = first_unseen_;
}

void TcpLink::lose(const std::string& reason) {
  if (lost_.empty()) lost_ = reason;
  disconnect(reason);
}

void TcpLink::advance() {
  if (!stream_) return;
  try {
    reader_.advance(*stream_, *this, std::numeric_limits<std::size_t>::max());
    write();
  } catch (const ConnectionBroken& error) {
    disconnect(error.what());
  } catch (const ProtocolError& error) {
    lose(detail::concat("device ", peer_, " broke the protocol: ", error.what()));
  }
}

// ── Reading ──────────────────────────────────────────────────────────────────────────────────────

std::span<std::byte> TcpLink::begin_frame(const FrameHeader& header) {
  if (header.epoch != epoch_)
    throw ProtocolError(detail::concat("a frame of epoch ", header.epoch, " in epoch ", epoch_));
  if (is_numbered(header.kind) && header.sequence != seen_ + 1)
    throw ProtocolError(
        detail::concat("frame ", header.sequence, " where frame ", seen_ + 1, " was due"));
  acknowledge_until(header.acknowledged);
  if (header.kind == FrameKind::Data) return begin_data(header);
  if (header.kind == FrameKind::Letter) throw ProtocolError("a letter in the middle of a run");
  text_.resize(header.kind == FrameKind::Farewell ? header.length : 0);
  return text_;
}

std::span<std::byte> TcpLink::begin_data(const FrameHeader& header) {
  const auto fits = [&](const TcpTransfer* transfer) {
    return transfer->context_ == header.context && transfer->message_.tag == header.tag;
  };
  const auto receive = std::ranges::find_if(receives_, fits);
  if (receive == receives_.end() || (*receive)->message_.bytes.size() != header.length)
    throw ProtocolError(detail::concat("data with tag ", header.tag, " and ", header.length,
                                       " B, which this device has given no credit for"));
  filling_ = *receive;
  filling_->state_ = TcpTransfer::State::Moving;
  return filling_->message_.bytes;
}

void TcpLink::end_frame(const FrameHeader& header) {
  if (is_numbered(header.kind)) seen_ = header.sequence;
  if (seen_ - told_ >= kUnacknowledged) owes_acknowledge_ = true;
  switch (header.kind) {
    case FrameKind::Credit:
      return take_credit(header);
    case FrameKind::Data:
      std::erase(receives_, filling_);
      std::exchange(filling_, nullptr)->state_ = TcpTransfer::State::Done;
      owes_acknowledge_ = true;
      return;
    case FrameKind::Farewell:
      farewell_.emplace(reinterpret_cast<const char*>(text_.data()), text_.size());
      owes_acknowledge_ = true;
      return;
    case FrameKind::Question:
      was_asked_ = true;
      return;
    case FrameKind::Answer:
      answer_ = header.tag;
      return;
    case FrameKind::Acknowledge:
    case FrameKind::Letter:
      return;
  }
}

void TcpLink::take_credit(const FrameHeader& header) {
  const CreditHeld credit{header.context, header.tag, header.length};
  const auto fits = [&](const TcpTransfer* transfer) {
    return transfer->context_ == credit.context && transfer->message_.tag == credit.tag;
  };
  const auto send = std::ranges::find_if(sends_, fits);
  if (send == sends_.end()) {
    if (credits_.size() >= kMostCredits) throw ProtocolError("more credit than a program can use");
    credits_.push_back(credit);
    return;
  }
  TcpTransfer& transfer = **send;
  sends_.erase(send);
  send_data(transfer, credit);
}

// ── Writing ──────────────────────────────────────────────────────────────────────────────────────

void TcpLink::write() {
  while (writer_.write(*stream_) && compose()) continue;
}

void TcpLink::add(FrameHeader header, std::span<const std::byte> payload) {
  header.epoch = epoch_;
  header.acknowledged = told_ = seen_;
  owes_acknowledge_ = false;
  writer_.add(header, payload);
}

/// Hands frames to the writer, as many as it takes; false if there are none.
bool TcpLink::compose() {
  const bool any = asks_ || answers_ || owes_acknowledge_ || next_ < frames_end_;
  if (std::exchange(asks_, false)) add({.kind = FrameKind::Question}, {});
  if (std::exchange(answers_, false)) add({.kind = FrameKind::Answer, .tag = told_awaited_}, {});
  while (next_ < frames_end_ && writer_.has_room()) {
    const Outgoing& out = frame(next_++);
    add(out.header, out.payload);
  }
  if (owes_acknowledge_) add({.kind = FrameKind::Acknowledge}, {});
  return any;
}

}  // namespace cleave::comm
