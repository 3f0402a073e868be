#include "cleave/comm/tcp/frame_writer.h"

#include <algorithm>

namespace cleave::comm {
namespace {

// Small frames are gathered up to this size before they are written.
constexpr std::size_t kOutputBuffer = 32 * 1024;

// Payloads up to this size are gathered with their headers; larger ones go out from where they lie.
constexpr std::size_t kCopied = 4 * 1024;

// As much as stays in the cache between writing it and adding it to the checksum. With less, the
// two ends of a connection meet in the system more often, which costs more than the cache gains.
constexpr std::size_t kWritten = 1024 * 1024;

}  // namespace

FrameWriter::FrameWriter() {
  buffer_.reserve(kOutputBuffer + kHeaderBytes + kCopied + kTrailerBytes);
}

bool FrameWriter::has_room() const {
  return body_.empty() && buffer_.size() < kOutputBuffer;
}

void FrameWriter::reset() {
  buffer_.clear();
  flushed_ = 0;
  body_ = {};
}

void FrameWriter::add(const FrameHeader& header, std::span<const std::byte> payload) {
  const std::size_t at = buffer_.size();
  buffer_.resize(at + kHeaderBytes);
  encode(header, std::span(buffer_).subspan(at).first<kHeaderBytes>());
  if (payload.empty()) return;
  if (payload.size() > kCopied) {
    body_ = payload;
    hasher_.reset();
    return;
  }
  buffer_.insert(buffer_.end(), payload.begin(), payload.end());
  if (sums()) add_checksum(hash_of(payload));
}

void FrameWriter::add_checksum(std::uint64_t checksum) {
  const auto trailer = std::as_bytes(std::span(&checksum, 1));
  buffer_.insert(buffer_.end(), trailer.begin(), trailer.end());
}

bool FrameWriter::write(Stream& stream) {
  for (;;) {
    while (flushed_ < buffer_.size()) {
      const auto then = body_.empty() ? Stream::Then::Flush : Stream::Then::More;
      const std::size_t bytes = stream.write(std::span(buffer_).subspan(flushed_), then);
      if (bytes == 0) return false;
      flushed_ += bytes;
    }
    buffer_.clear();
    flushed_ = 0;
    if (body_.empty()) return true;
    const std::size_t bytes = stream.write(body_.first(std::min(body_.size(), kWritten)));
    if (bytes == 0) return false;
    if (sums()) hasher_.add(body_.first(bytes));
    body_ = body_.subspan(bytes);
    if (sums() && body_.empty()) add_checksum(hasher_.digest());
  }
}

}  // namespace cleave::comm
