#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "cleave/comm/tcp/frame.h"
#include "cleave/comm/tcp/stream.h"

namespace cleave::comm {

/// What a letter says: the first field names it.
using Letter = std::vector<std::string>;

/// Throws ProtocolError unless `field` is a number that is not negative.
std::int64_t number_in(const std::string& field);

/// Letters over a stream that never blocks. Anything that is no letter is a protocol error.
class LetterBox final : private FrameSink {
 public:
  /// Of a stranger, a letter longer than this is not read.
  explicit LetterBox(std::uint64_t longest) : longest_(longest) {}

  void limit(std::uint64_t longest) { longest_ = longest; }

  void put(const Letter& letter);

  /// Writes what it can; true once nothing is left.
  bool flush(Stream& stream);

  /// The next letter, or nothing yet.
  std::optional<Letter> take(Stream& stream);

  /// Whether a letter has begun and not ended.
  bool is_within_letter() const { return reader_.is_within_frame(); }

  /// What has been read beyond the last letter goes with it.
  FrameReader release_reader() { return std::move(reader_); }

 private:
  std::span<std::byte> begin_frame(const FrameHeader& header) override;
  void end_frame(const FrameHeader& header) override;

  std::uint64_t longest_;
  FrameReader reader_;
  std::vector<std::byte> incoming_;
  std::vector<std::byte> outgoing_;
  std::size_t written_ = 0;
};

}  // namespace cleave::comm
