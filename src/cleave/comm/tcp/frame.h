#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "cleave/base/hash.h"

namespace cleave::comm {

/// The other end of a connection sent what the protocol does not contain.
class ProtocolError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// The version of everything in comm/tcp that two programs must agree on.
inline constexpr std::uint32_t kWireVersion = 1;

/// What a frame says. Numbered frames are repeated after a broken connection until they are
/// acknowledged; the others may be lost.
enum class FrameKind : std::uint16_t {
  Credit = 1,   ///< numbered: a receive of `length` bytes is posted, none of them in this frame
  Data,         ///< numbered: the bytes of a message that has credit
  Acknowledge,  ///< only its field `acknowledged` counts
  Question,     ///< "whom do you wait for?"
  Answer,       ///< the device in `tag`, or kNobody
  Farewell,     ///< numbered: this end will send nothing more; the payload says why, if in distress
  Letter,       ///< fields of text, outside of a run: greetings, enrolment, status
};

bool is_numbered(FrameKind kind);

/// What vouches for payloads: a checksum that follows each of them, or a connection that
/// authenticates every byte, so that nothing follows.
enum class Integrity : std::uint8_t { Checksum, Connection };

/// Begins every frame. The payload follows, and after it what its connection's integrity says.
struct FrameHeader {
  FrameKind kind = FrameKind::Letter;
  std::uint32_t epoch = 0;         ///< which plan of the run
  std::uint64_t context = 0;       ///< the group
  std::int32_t tag = 0;            ///< the instruction's message within the group
  std::uint64_t length = 0;        ///< bytes of the message
  std::uint64_t sequence = 0;      ///< of a numbered frame, counted from 1
  std::uint64_t acknowledged = 0;  ///< the last numbered frame that the sender of this has seen

  /// How many bytes of the message follow this header.
  std::uint64_t payload() const { return kind == FrameKind::Credit ? 0 : length; }
  friend bool operator==(const FrameHeader&, const FrameHeader&) = default;
};

inline constexpr std::size_t kHeaderBytes = 56;
inline constexpr std::size_t kTrailerBytes = 8;

/// Longer ones are refused before a byte of them is read.
inline constexpr std::uint64_t kLongestLetter = std::uint64_t{16} << 20;
inline constexpr std::uint64_t kLongestMessage = std::uint64_t{1} << 40;

void encode(const FrameHeader& header, std::span<std::byte, kHeaderBytes> out);

/// Throws ProtocolError unless this is a header that encode() could have written.
FrameHeader decode(std::span<const std::byte, kHeaderBytes> bytes);

/// Where bytes come from.
class ByteSource {
 public:
  virtual ~ByteSource() = default;
  /// As many as there are at the moment, up to the size of `into`; 0 if there are none yet.
  virtual std::size_t read(std::span<std::byte> into) = 0;
};

/// Where frames go to.
class FrameSink {
 public:
  virtual ~FrameSink() = default;

  /// A header has arrived: where its payload is to go, header.payload() bytes. Throws ProtocolError
  /// if no such frame is due.
  virtual std::span<std::byte> begin_frame(const FrameHeader& header) = 0;

  /// The payload is there, and its checksum is right where it has one.
  virtual void end_frame(const FrameHeader& header) = 0;
};

/// Cuts a stream of bytes into frames. Small frames are read several at a time, large payloads go
/// straight to where they belong.
class FrameReader {
 public:
  FrameReader();

  /// Reads what `source` has at the moment, or until `most` frames have ended. Returns how many
  /// ended. Throws ProtocolError, and what source and sink throw.
  std::size_t advance(ByteSource& source, FrameSink& sink, std::size_t most);

  /// How the frames to come are vouched for; at first by checksums.
  void rely_on(Integrity integrity) { integrity_ = integrity; }

  /// Forgets a frame that has begun.
  void reset();

  /// Whether a frame has begun and not ended.
  bool is_within_frame() const { return at_ != At::Header || begin_ < end_; }

 private:
  bool fill(ByteSource& source);
  std::size_t take(ByteSource& source, std::span<std::byte> into);
  bool check_payload(ByteSource& source);

  Integrity integrity_ = Integrity::Checksum;
  enum class At : std::uint8_t { Header, Payload, Trailer };
  At at_ = At::Header;
  FrameHeader header_;
  std::span<std::byte> rest_;  ///< of the payload
  Hasher hasher_;
  std::vector<std::byte> buffer_;
  std::size_t begin_ = 0, end_ = 0;  ///< of what is in the buffer
};

/// A list of texts as one payload, and back. Throws ProtocolError if the bytes are no such list.
std::vector<std::byte> pack(std::span<const std::string> fields);
std::vector<std::string> unpack(std::span<const std::byte> bytes);

}  // namespace cleave::comm
