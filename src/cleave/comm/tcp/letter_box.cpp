#include "cleave/comm/tcp/letter_box.h"

#include <charconv>
#include <cstring>

#include "cleave/base/check.h"
#include "cleave/base/hash.h"

namespace cleave::comm {

std::int64_t number_in(const std::string& field) {
  std::int64_t number = 0;
  const char* end = field.data() + field.size();
  const auto [at, error] = std::from_chars(field.data(), end, number);
  if (error != std::errc() || at != end || number < 0)
    throw ProtocolError("a number was due in a letter");
  return number;
}

void LetterBox::put(const Letter& letter) {
  const std::vector<std::byte> payload = pack(letter);
  const std::size_t at = outgoing_.size();
  const std::size_t trailer = payload.empty() ? 0 : kTrailerBytes;
  outgoing_.resize(at + kHeaderBytes + payload.size() + trailer);
  encode({.kind = FrameKind::Letter, .length = payload.size()},
         std::span(outgoing_).subspan(at).first<kHeaderBytes>());
  if (payload.empty()) return;
  std::memcpy(outgoing_.data() + at + kHeaderBytes, payload.data(), payload.size());
  const std::uint64_t checksum = hash_of(payload);
  std::memcpy(outgoing_.data() + at + kHeaderBytes + payload.size(), &checksum, sizeof checksum);
}

bool LetterBox::flush(Stream& stream) {
  while (written_ < outgoing_.size()) {
    const std::size_t bytes = stream.write(std::span(outgoing_).subspan(written_));
    if (bytes == 0) return false;
    written_ += bytes;
  }
  outgoing_.clear();
  written_ = 0;
  return true;
}

std::optional<Letter> LetterBox::take(Stream& stream) {
  if (reader_.advance(stream, *this, 1) == 0) return std::nullopt;
  return unpack(incoming_);
}

std::span<std::byte> LetterBox::begin_frame(const FrameHeader& header) {
  if (header.kind != FrameKind::Letter) throw ProtocolError("a frame where a letter was due");
  if (header.length > longest_)
    throw ProtocolError(detail::concat("a letter of ", header.length, " B where at most ", longest_,
                                       " B are allowed"));
  incoming_.resize(header.length);
  return incoming_;
}

void LetterBox::end_frame(const FrameHeader& /*header*/) {}

}  // namespace cleave::comm
