#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "cleave/comm/tcp/frame.h"
#include "cleave/comm/tcp/spare_buffers.h"

namespace cleave::comm {

class TcpTransfer;

/// The numbered frames of one end of a link, from when they are due until the peer has acknowledged
/// them: a connection that breaks is made again, and they go over the next one.
///
///     … acknowledged │ first_unseen … written … next │ … to be written … │ end
class OutgoingFrames {
 public:
  struct Frame {
    FrameHeader header;
    std::span<const std::byte> payload;
    TcpTransfer* transfer = nullptr;   ///< whose data it is
    std::vector<std::byte> copy = {};  ///< what `payload` lies in; empty: memory of somebody else
  };

  /// `copied`: bytes of payloads that it may have copies of.
  explicit OutgoingFrames(std::uint64_t copied)
      : frames_(64), most_copied_(copied), spare_(copied) {}

  /// So many more at once allocate nothing.
  void make_room(std::size_t frames);

  /// Gives it the next number.
  void add(FrameHeader header, std::span<const std::byte> payload, TcpTransfer* transfer);

  /// The same with a copy of the payload: whoever sends it need not wait until it is acknowledged.
  /// False if there are too many copies already.
  bool add_copy(FrameHeader header, std::span<const std::byte> payload);

  /// The next that is to be written; there must be one.
  const Frame& take_next() { return at(next_++); }
  bool has_next() const { return next_ < end_; }
  std::uint64_t next() const { return next_; }

  /// Calls done(transfer) for the data of each that the peer has seen.
  template <class Done>
  void acknowledge_until(std::uint64_t sequence, Done&& done) {
    for (; first_unseen_ <= sequence; ++first_unseen_) {
      Frame& seen = at(first_unseen_);
      if (seen.transfer != nullptr) done(*std::exchange(seen.transfer, nullptr));
      if (seen.copy.capacity() > 0) forget_copy(seen);
    }
  }

  /// Whether a peer that has seen so many can go on with what is left.
  bool can_go_on_after(std::uint64_t seen) const {
    return seen + 1 >= first_unseen_ && seen < end_;
  }

  /// Everything that is not acknowledged is to be written again.
  void rewind() { next_ = first_unseen_; }

  /// Forgets whose data a frame has; true if there was one.
  bool withdraw(const TcpTransfer& transfer) noexcept;

  bool empty() const { return first_unseen_ == end_; }

 private:
  Frame& at(std::uint64_t sequence) { return frames_[sequence & (frames_.size() - 1)]; }

  void forget_copy(Frame& frame);

  std::vector<Frame> frames_;  ///< a ring
  std::uint64_t first_unseen_ = 1, next_ = 1, end_ = 1;
  std::uint64_t most_copied_, copied_ = 0;
  SpareBuffers spare_;
};

}  // namespace cleave::comm
