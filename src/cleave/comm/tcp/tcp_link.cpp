#include "cleave/comm/tcp/tcp_link.h"

#include <limits>
#include <utility>

#include "cleave/base/check.h"
#include "cleave/comm/early_bytes.h"

namespace cleave::comm {
namespace {

// Frames that nobody waits for are acknowledged by the dozen.
constexpr std::uint64_t kUnacknowledged = 32;

// A message up to this size is copied over every link, so that its send is complete at once.
constexpr std::size_t kCopiedSend = 4 * 1024;

MessageKey key_of(const FrameHeader& header) {
  return {header.context, header.tag};
}

}  // namespace

TcpLink::TcpLink(int device, int peer, std::uint32_t epoch, std::uint64_t early_bytes)
    : device_(device),
      peer_(peer),
      epoch_(epoch),
      messages_(device, early_bytes),
      frames_(early_bytes) {}

// Where this end has one message, the other has up to three: credits count as well.
void TcpLink::make_room(std::size_t frames) {
  messages_.make_room(frames);
  frames_.make_room(frames);
}

// ── Messages ─────────────────────────────────────────────────────────────────────────────────────

void TcpLink::post(TcpTransfer& transfer) {
  const Message& message = transfer.message_;
  transfer.state_ = TcpTransfer::State::Posted;
  if (message.direction == Direction::Receive) {
    messages_.post_receive(transfer);
    frames_.add({.kind = FrameKind::Credit,
                 .context = transfer.context_,
                 .tag = message.tag,
                 .length = message.bytes.size()},
                {}, nullptr);
  } else {
    if (!messages_.post_send(transfer)) return;
    send_data(transfer);
  }
  advance();
}

void TcpLink::send_data(TcpTransfer& transfer) {
  const Message& message = transfer.message_;
  const FrameHeader header{.kind = FrameKind::Data,
                           .context = transfer.context_,
                           .tag = message.tag,
                           .length = message.bytes.size()};
  if (message.bytes.size() <= copied_ && frames_.add_copy(header, message.bytes)) {
    transfer.state_ = TcpTransfer::State::Done;
    return;
  }
  frames_.add(header, message.bytes, &transfer);
  transfer.state_ = TcpTransfer::State::Moving;
}

/// Happens only on the way to an end: what has begun cannot be taken back, so the connection goes.
void TcpLink::withdraw(TcpTransfer& transfer) noexcept {
  const bool arrives = messages_.withdraw(transfer), leaves = frames_.withdraw(transfer);
  transfer.state_ = TcpTransfer::State::Done;
  if (!arrives && !leaves) return;
  stream_.reset();
  lost_ = "device " + std::to_string(device_) + " gave up a message in the middle";
}

void TcpLink::acknowledge_until(std::uint64_t sequence) {
  const std::uint64_t unsent = writer_.in_payload() ? frames_.next() - 1 : frames_.next();
  if (sequence >= unsent) throw ProtocolError("it acknowledges a frame that was not sent");
  note_seen(sequence);
}

void TcpLink::note_seen(std::uint64_t sequence) {
  frames_.acknowledge_until(
      sequence, [](TcpTransfer& transfer) { transfer.state_ = TcpTransfer::State::Done; });
}

void TcpLink::say_farewell(const std::string& reason) {
  own_farewell_ = reason;
  frames_.add({.kind = FrameKind::Farewell, .length = own_farewell_.size()},
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
  if (!lost_.empty()) return;
  if (!frames_.can_go_on_after(seen)) {
    lose(detail::concat("device ", peer_, " has lost track of the messages: it saw ", seen,
                        " frames"));
    return;
  }
  disconnect("replaced by another");
  note_seen(seen);
  frames_.rewind();
  stream_.emplace(std::move(stream));
  copied_ = stream_->round_trip() >= kLongRoundTrip ? std::size_t{kCopiedOnLongLinks} : kCopiedSend;
  reader_ = std::move(reader);
  reader_.rely_on(integrity);
  writer_.rely_on(integrity);
}

void TcpLink::disconnect(const std::string& reason) {
  stream_.reset();
  last_break_ = reason;
  reader_.reset();
  messages_.forget_begun();
  writer_.reset();
  frames_.rewind();
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
  if (header.kind == FrameKind::Data) return messages_.begin_data(key_of(header), header.length);
  if (header.kind == FrameKind::Letter) throw ProtocolError("a letter in the middle of a run");
  text_.resize(header.kind == FrameKind::Farewell ? header.length : 0);
  return text_;
}

void TcpLink::end_frame(const FrameHeader& header) {
  if (is_numbered(header.kind)) seen_ = header.sequence;
  if (seen_ - told_ >= kUnacknowledged) owes_acknowledge_ = true;
  switch (header.kind) {
    case FrameKind::Credit:
      if (TcpTransfer* transfer = messages_.take_credit(key_of(header), header.length))
        send_data(*transfer);
      return;
    case FrameKind::Data:
      messages_.end_data(key_of(header));
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
  const bool any = asks_ || answers_ || owes_acknowledge_ || frames_.has_next();
  if (std::exchange(asks_, false)) add({.kind = FrameKind::Question}, {});
  if (std::exchange(answers_, false)) add({.kind = FrameKind::Answer, .tag = told_awaited_}, {});
  while (frames_.has_next() && writer_.has_room()) {
    const OutgoingFrames::Frame& out = frames_.take_next();
    add(out.header, out.payload);
  }
  if (owes_acknowledge_) add({.kind = FrameKind::Acknowledge}, {});
  return any;
}

}  // namespace cleave::comm
