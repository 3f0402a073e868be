#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "cleave/comm/tcp/frame.h"
#include "cleave/comm/tcp/stream.h"

namespace cleave::comm {

/// Turns frames into bytes on a stream. Small ones are gathered and written together, large
/// payloads go out from where they lie.
class FrameWriter {
 public:
  FrameWriter();

  /// How the frames to come are vouched for; at first by checksums.
  void rely_on(Integrity integrity) { integrity_ = integrity; }

  /// Whether another frame may be added before the next write().
  bool has_room() const;

  /// A large payload must stay where it is until it has been written.
  void add(const FrameHeader& header, std::span<const std::byte> payload);

  /// Writes what the stream takes; true once nothing is left.
  bool write(Stream& stream);

  /// Whether the last frame that was added is still being read from its place.
  bool in_payload() const { return !body_.empty(); }

  /// Forgets what has not been written.
  void reset();

 private:
  bool sums() const { return integrity_ == Integrity::Checksum; }
  void add_checksum(std::uint64_t checksum);

  Integrity integrity_ = Integrity::Checksum;
  std::vector<std::byte> buffer_;
  std::size_t flushed_ = 0;
  std::span<const std::byte> body_;  ///< of a large payload: what is still to be written
  Hasher hasher_;
};

}  // namespace cleave::comm
