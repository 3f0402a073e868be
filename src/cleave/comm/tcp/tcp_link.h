#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "cleave/comm/tcp/frame.h"
#include "cleave/comm/tcp/frame_writer.h"
#include "cleave/comm/tcp/outgoing_frames.h"
#include "cleave/comm/tcp/rendezvous.h"
#include "cleave/comm/tcp/stream.h"
#include "cleave/comm/tcp/tcp_transfer.h"

namespace cleave::comm {

/// Everything between this device and one other: the messages, and the connection they go over,
/// which may break and be replaced without a message noticing.
class TcpLink final : private FrameSink {
 public:
  /// `early_bytes`: TcpSetup's, the same on both ends.
  TcpLink(int device, int peer, std::uint32_t epoch, std::uint64_t early_bytes);

  void post(TcpTransfer& transfer);
  void withdraw(TcpTransfer& transfer) noexcept;

  /// For so many more frames at once, so that none of them allocates.
  void make_room(std::size_t frames);

  /// Goes on over `stream`, unless the link is lost; `seen` is the number of the last frame that
  /// the peer has. `reader` may hold what it sent already.
  void attach(Stream stream, FrameReader reader, std::uint64_t seen, Integrity integrity);

  /// Reads and writes what can be without waiting. A connection that breaks is dropped.
  void advance();

  /// Without a connection until the next one is attached.
  void disconnect(const std::string& reason);

  /// There will be no more connections.
  void lose(const std::string& reason);

  /// This device ends; `reason` if not because all is done.
  void say_farewell(const std::string& reason);

  void ask_awaited();
  void tell_awaited(int device);
  std::optional<int> take_answer() { return std::exchange(answer_, std::nullopt); }
  bool take_question() { return std::exchange(was_asked_, false); }

  /// Throws DeviceLost if `transfer` can never complete.
  void check_alive(const TcpTransfer& transfer) const;

  int peer() const { return peer_; }
  bool connected() const { return stream_.has_value(); }
  bool ended() const { return !lost_.empty() || farewell_.has_value(); }
  bool idle() const { return frames_.empty(); }  ///< everything said was heard
  std::uint64_t seen() const { return seen_; }
  const std::string& last_break() const { return last_break_; }
  const std::string& why_lost() const { return lost_; }  ///< empty: it is not
  int socket() const { return stream_ ? stream_->socket() : -1; }
  bool awaits_room() const { return stream_ && stream_->awaits_room(); }

 private:
  std::span<std::byte> begin_frame(const FrameHeader& header) override;
  void end_frame(const FrameHeader& header) override;

  void send_data(TcpTransfer& transfer);
  void acknowledge_until(std::uint64_t sequence);
  void note_seen(std::uint64_t sequence);
  void write();
  bool compose();
  void add(FrameHeader header, std::span<const std::byte> payload);

  int device_;
  int peer_;
  std::uint32_t epoch_;
  std::optional<Stream> stream_;
  std::string lost_, last_break_;
  std::optional<std::string> farewell_;  ///< of the peer

  Rendezvous messages_;

  // Incoming.
  FrameReader reader_;
  std::uint64_t seen_ = 0;         ///< the last numbered frame that arrived
  std::uint64_t told_ = 0;         ///< … as far as the peer knows
  bool owes_acknowledge_ = false;  ///< a send of the peer waits for it
  std::vector<std::byte> text_;    ///< of a farewell

  // Outgoing.
  OutgoingFrames frames_;
  std::size_t copied_ = 0;  ///< up to this size messages are, if there is room for that
  FrameWriter writer_;
  bool asks_ = false, was_asked_ = false, answers_ = false;
  int told_awaited_ = kNobody;
  std::optional<int> answer_;
  std::string own_farewell_;
};

}  // namespace cleave::comm
