#include "cleave/comm/tcp/frame.h"

#include <algorithm>
#include <cstring>
#include <string>

#include "comm/bytes.h"
#include <gtest/gtest.h>

namespace cleave::comm {
namespace {

using testing::some_bytes;
using Bytes = std::vector<std::byte>;

/// Hands out bytes in pieces of a given size, as a network does.
class Pieces final : public ByteSource {
 public:
  Pieces(Bytes bytes, std::size_t piece) : bytes_(std::move(bytes)), piece_(piece) {}
  std::size_t read(std::span<std::byte> into) override {
    const std::size_t count = std::min({into.size(), piece_, bytes_.size() - at_});
    std::copy_n(bytes_.begin() + static_cast<std::ptrdiff_t>(at_), count, into.begin());
    at_ += count;
    return count;
  }
  bool empty() const { return at_ == bytes_.size(); }

 private:
  Bytes bytes_;
  std::size_t piece_, at_ = 0;
};

/// Keeps everything.
class Heap final : public FrameSink {
 public:
  std::vector<FrameHeader> headers;
  std::vector<Bytes> payloads;

 private:
  std::span<std::byte> begin_frame(const FrameHeader& header) override {
    payloads.emplace_back(header.payload());
    return payloads.back();
  }
  void end_frame(const FrameHeader& header) override { headers.push_back(header); }
};

void append(Bytes& stream, const FrameHeader& header, const Bytes& payload,
            Integrity integrity = Integrity::Checksum) {
  std::array<std::byte, kHeaderBytes> bytes;
  encode(header, bytes);
  stream.insert(stream.end(), bytes.begin(), bytes.end());
  if (payload.empty()) return;
  stream.insert(stream.end(), payload.begin(), payload.end());
  if (integrity == Integrity::Connection) return;
  const std::uint64_t checksum = hash_of(payload);
  const auto trailer = std::as_bytes(std::span(&checksum, 1));
  stream.insert(stream.end(), trailer.begin(), trailer.end());
}

FrameHeader data_of(std::size_t bytes, std::uint64_t sequence) {
  return {.kind = FrameKind::Data,
          .epoch = 3,
          .context = 0x0123456789abcdef,
          .tag = 42,
          .length = bytes,
          .sequence = sequence,
          .acknowledged = 7};
}

std::string error_of(Bytes stream, std::size_t piece = 1000) {
  Pieces source(std::move(stream), piece);
  Heap heap;
  FrameReader reader;
  try {
    while (reader.advance(source, heap, 1) > 0) continue;
  } catch (const ProtocolError& error) {
    return error.what();
  }
  return "";
}

TEST(Frame, ComesBackAsItWasHoweverTheBytesArrive) {
  for (const Integrity integrity : {Integrity::Checksum, Integrity::Connection}) {
    Bytes stream;
    std::vector<FrameHeader> headers;
    std::vector<Bytes> payloads;
    for (const std::size_t size : {0, 1, 55, 56, 57, 5000, 100'000}) {
      headers.push_back(data_of(size, headers.size() + 1));
      payloads.push_back(some_bytes(size, static_cast<int>(size)));
      append(stream, headers.back(), payloads.back(), integrity);
    }
    for (const std::size_t piece : {1, 7, 56, 64, 4096, 1'000'000}) {
      Pieces source(stream, piece);
      Heap heap;
      FrameReader reader;
      reader.rely_on(integrity);
      while (heap.headers.size() < headers.size() && !source.empty())
        reader.advance(source, heap, 100);
      EXPECT_EQ(heap.headers, headers);
      EXPECT_EQ(heap.payloads, payloads);
    }
  }
}

TEST(Frame, RefusesEveryFlippedBit) {
  Bytes stream;
  append(stream, data_of(40, 1), some_bytes(40, 1));
  for (std::size_t bit = 0; bit < 8 * stream.size(); ++bit) {
    Bytes flipped = stream;
    flipped[bit / 8] ^= std::byte{1} << (bit % 8);
    EXPECT_NE(error_of(flipped), "") << "bit " << bit;
  }
}

TEST(Frame, NamesWhatIsWrong) {
  Bytes stream;
  append(stream, {.kind = FrameKind::Letter, .length = kLongestLetter + 1}, {});
  EXPECT_EQ(error_of(stream), "a frame of 16777217 B where at most 16777216 B are allowed");
  stream.clear();
  append(stream, {.kind = FrameKind::Credit, .length = 8}, {});
  EXPECT_EQ(error_of(stream), "a frame with a number that its kind does not have, or without one");
  stream.clear();
  append(stream, {.kind = static_cast<FrameKind>(99)}, {});
  EXPECT_EQ(error_of(stream), "a frame of kind 99, which there is not");
  const std::string other = "GET / HTTP/1.1\r\nHost: example.org\r\nUser-Agent: someone\r\n\r\n";
  const auto bytes = std::as_bytes(std::span(other));
  EXPECT_EQ(error_of({bytes.begin(), bytes.end()}), "this is not cleave's protocol");
}

TEST(Letters, ComeBackAsTheyWere) {
  const std::vector<std::string> fields = {"join", "", std::string("a\0b", 3),
                                           std::string(1000, 'x')};
  EXPECT_EQ(unpack(pack(fields)), fields);
  Bytes cut = pack(fields);
  cut.pop_back();
  EXPECT_THROW(unpack(cut), ProtocolError);
}

}  // namespace
}  // namespace cleave::comm
