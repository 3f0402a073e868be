#include "cleave/comm/tcp/frame.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include "cleave/base/check.h"

namespace cleave::comm {
namespace {

// Reads as "clv" and the version, so that a stranger on the port is recognised by its first word.
constexpr std::uint32_t kMagic = 0x00766c63u | kWireVersion << 24;

// Room for a few hundred small frames. Payloads above this are read straight to their place.
constexpr std::size_t kInputBuffer = 16 * 1024;

// As much as stays in the cache between reading it and adding it to the checksum.
constexpr std::size_t kReadTogether = 128 * 1024;

static_assert(std::endian::native == std::endian::little, "the wire is little-endian");

template <class T>
void put(std::byte*& at, T value) {
  std::memcpy(at, &value, sizeof value);
  at += sizeof value;
}

template <class T>
T get(const std::byte*& at) {
  T value;
  std::memcpy(&value, at, sizeof value);
  at += sizeof value;
  return value;
}

/// Of the header's own bytes: a flipped bit must not become a length.
std::uint32_t header_check(std::span<const std::byte, kHeaderBytes> bytes) {
  return static_cast<std::uint32_t>(hash_of(bytes.first(kHeaderBytes - 4)));
}

void check_length(const FrameHeader& header) {
  const bool message = header.kind == FrameKind::Data || header.kind == FrameKind::Credit;
  const bool text = header.kind == FrameKind::Letter || header.kind == FrameKind::Farewell;
  const std::uint64_t most = message ? kLongestMessage : text ? kLongestLetter : 0;
  if (header.length > most)
    throw ProtocolError(
        detail::concat("a frame of ", header.length, " B where at most ", most, " B are allowed"));
}

}  // namespace

bool is_numbered(FrameKind kind) {
  return kind == FrameKind::Credit || kind == FrameKind::Data || kind == FrameKind::Farewell;
}

void encode(const FrameHeader& header, std::span<std::byte, kHeaderBytes> out) {
  std::byte* at = out.data();
  put(at, kMagic);
  put(at, static_cast<std::uint16_t>(header.kind));
  put(at, std::uint16_t{0});
  put(at, header.epoch);
  put(at, header.tag);
  put(at, header.context);
  put(at, header.length);
  put(at, header.sequence);
  put(at, header.acknowledged);
  put(at, std::uint32_t{0});
  put(at, header_check(out));
}

FrameHeader decode(std::span<const std::byte, kHeaderBytes> bytes) {
  const std::byte* at = bytes.data();
  const auto magic = get<std::uint32_t>(at);
  if ((magic & 0xffffff) != (kMagic & 0xffffff))
    throw ProtocolError("this is not cleave's protocol");
  if (magic != kMagic)
    throw ProtocolError(detail::concat("version ", magic >> 24,
                                       " of the protocol; this is version ", kWireVersion));
  FrameHeader header;
  const auto kind = get<std::uint16_t>(at);
  header.kind = static_cast<FrameKind>(kind);
  const auto spare = get<std::uint16_t>(at);
  header.epoch = get<std::uint32_t>(at);
  header.tag = get<std::int32_t>(at);
  header.context = get<std::uint64_t>(at);
  header.length = get<std::uint64_t>(at);
  header.sequence = get<std::uint64_t>(at);
  header.acknowledged = get<std::uint64_t>(at);
  const auto spare_too = get<std::uint32_t>(at);
  if (get<std::uint32_t>(at) != header_check(bytes))
    throw ProtocolError("the header of a frame is damaged");
  if (kind < 1 || kind > static_cast<std::uint16_t>(FrameKind::Letter) || spare != 0 ||
      spare_too != 0)
    throw ProtocolError(detail::concat("a frame of kind ", kind, ", which there is not"));
  check_length(header);
  if (is_numbered(header.kind) != (header.sequence != 0))
    throw ProtocolError("a frame with a number that its kind does not have, or without one");
  return header;
}

FrameReader::FrameReader() : buffer_(kInputBuffer) {}

void FrameReader::reset() {
  at_ = At::Header;
  begin_ = end_ = 0;
}

/// False when there is nothing to be had at the moment.
bool FrameReader::fill(ByteSource& source) {
  if (begin_ > 0) {
    std::memmove(buffer_.data(), buffer_.data() + begin_, end_ - begin_);
    end_ -= begin_;
    begin_ = 0;
  }
  const std::size_t more = source.read(std::span(buffer_).subspan(end_));
  end_ += more;
  return more > 0;
}

/// Some of what is due, from the buffer first.
std::size_t FrameReader::take(ByteSource& source, std::span<std::byte> into) {
  if (begin_ == end_) {
    if (into.size() >= buffer_.size())
      return source.read(into.first(std::min(into.size(), kReadTogether)));
    if (!fill(source)) return 0;
  }
  const std::size_t bytes = std::min(into.size(), end_ - begin_);
  std::memcpy(into.data(), buffer_.data() + begin_, bytes);
  begin_ += bytes;
  return bytes;
}

/// False when its checksum is not there yet.
bool FrameReader::check_payload(ByteSource& source) {
  if (integrity_ == Integrity::Connection) return true;
  while (end_ - begin_ < kTrailerBytes) {
    if (!fill(source)) return false;
  }
  const std::byte* at = buffer_.data() + begin_;
  if (get<std::uint64_t>(at) != hasher_.digest())
    throw ProtocolError("the payload of a frame is damaged");
  begin_ += kTrailerBytes;
  return true;
}

std::size_t FrameReader::advance(ByteSource& source, FrameSink& sink, std::size_t most) {
  std::size_t ended = 0;
  while (ended < most) {
    if (at_ == At::Header) {
      if (end_ - begin_ < kHeaderBytes) {
        if (!fill(source)) return ended;
        continue;
      }
      header_ = decode(std::span(buffer_).subspan(begin_).first<kHeaderBytes>());
      begin_ += kHeaderBytes;
      rest_ = sink.begin_frame(header_);
      if (header_.payload() == 0) {
        sink.end_frame(header_);
        ++ended;
        continue;
      }
      CLEAVE_CHECK(rest_.size() == header_.payload(), rest_.size(), " B for a payload of ",
                   header_.payload());
      hasher_.reset();
      at_ = At::Payload;
    }
    while (at_ == At::Payload) {
      const std::size_t bytes = take(source, rest_);
      if (bytes == 0) return ended;
      if (integrity_ == Integrity::Checksum) hasher_.add(rest_.first(bytes));
      rest_ = rest_.subspan(bytes);
      if (rest_.empty()) at_ = At::Trailer;
    }
    if (!check_payload(source)) return ended;
    at_ = At::Header;
    sink.end_frame(header_);
    ++ended;
  }
  return ended;
}

std::vector<std::byte> pack(std::span<const std::string> fields) {
  std::vector<std::byte> bytes;
  for (const std::string& field : fields) {
    const auto length = static_cast<std::uint32_t>(field.size());
    const auto of_length = std::as_bytes(std::span(&length, 1));
    bytes.insert(bytes.end(), of_length.begin(), of_length.end());
    const auto of_text = std::as_bytes(std::span(field));
    bytes.insert(bytes.end(), of_text.begin(), of_text.end());
  }
  return bytes;
}

std::vector<std::string> unpack(std::span<const std::byte> bytes) {
  std::vector<std::string> fields;
  while (!bytes.empty()) {
    if (bytes.size() < 4) throw ProtocolError("a letter ends within a length");
    const std::byte* at = bytes.data();
    const auto length = get<std::uint32_t>(at);
    bytes = bytes.subspan(4);
    if (length > bytes.size()) throw ProtocolError("a letter ends within a field");
    fields.emplace_back(reinterpret_cast<const char*>(bytes.data()), length);
    bytes = bytes.subspan(length);
  }
  return fields;
}

}  // namespace cleave::comm
