#pragma once

#include <cstdint>
#include <string>

#include "cleave/comm/tcp/early_arrivals.h"
#include "cleave/comm/transport.h"

namespace cleave::comm {

class TcpLink;
class TcpTransport;

/// One end of a message between two programs.
///
///     receiver: posted ── credit ──▶ … ◀── data ── sender;  receiver: complete ── ack ──▶ complete
///
/// The sender's buffer is read until the receiver has acknowledged it, so a broken connection can
/// be repaired without a copy. Where the link has room (TcpSetup::early_bytes), data leaves before
/// its credit has come, and a small message is copied, so that its send is complete at once.
class TcpTransfer final : public Operation {
 public:
  explicit TcpTransfer(TcpTransport& owner) : owner_(owner) {}

  bool advance() override;
  void release() noexcept override;
  std::string describe() const override { return comm::describe(message_); }
  int awaited() const override { return message_.peer; }

 private:
  friend class Rendezvous;
  friend class TcpLink;
  friend class TcpTransport;
  enum class State : std::uint8_t { Posted, Moving, Done };

  MessageKey key() const { return {context_, message_.tag}; }

  TcpTransport& owner_;
  Message message_;
  std::uint64_t context_ = 0;  ///< as the wire has it
  TcpLink* link_ = nullptr;
  State state_ = State::Done;
};

}  // namespace cleave::comm
