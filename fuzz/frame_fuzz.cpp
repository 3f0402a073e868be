#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <vector>

#include "cleave/comm/tcp/frame.h"

// Whatever bytes come over a wire, in pieces of whatever size: reading them gives frames and
// letters or a ProtocolError, and never more memory than was asked for. Half of the inputs get
// their checksums mended first, so that what lies behind them is reached, and a quarter is read as
// from a connection that authenticates every byte.

namespace {

using namespace cleave::comm;

constexpr std::uint64_t kMost = 1 << 16;

class FuzzSource final : public ByteSource {
 public:
  FuzzSource(std::span<const std::byte> bytes, std::size_t piece) : rest_(bytes), piece_(piece) {}
  std::size_t read(std::span<std::byte> into) override {
    const std::size_t count = std::min({into.size(), piece_, rest_.size()});
    if (count > 0) std::memcpy(into.data(), rest_.data(), count);
    rest_ = rest_.subspan(count);
    return count;
  }
  bool empty() const { return rest_.empty(); }

 private:
  std::span<const std::byte> rest_;
  std::size_t piece_;
};

class FuzzSink final : public FrameSink {
  std::span<std::byte> begin_frame(const FrameHeader& header) override {
    std::byte bytes[kHeaderBytes];
    encode(header, bytes);
    if (decode(bytes) != header) std::abort();
    if (header.payload() > kMost) throw ProtocolError("too long");
    payload_.resize(header.payload());
    return payload_;
  }
  void end_frame(const FrameHeader& header) override {
    if (header.kind != FrameKind::Letter) return;
    const std::vector<std::string> fields = unpack(payload_);
    const std::vector<std::byte> again = pack(fields);
    if (!std::ranges::equal(again, payload_)) std::abort();
  }
  std::vector<std::byte> payload_;
};

/// Gives every header its magic word and checksum, and payloads theirs, if they have one.
void mend(std::span<std::byte> bytes, Integrity integrity) {
  while (bytes.size() >= kHeaderBytes) {
    const std::uint32_t magic = 0x00766c63u | kWireVersion << 24;
    std::memcpy(bytes.data(), &magic, sizeof magic);
    std::uint16_t kind = 0;
    std::memcpy(&kind, bytes.data() + 4, sizeof kind);
    kind = static_cast<std::uint16_t>(kind % 8);
    std::memcpy(bytes.data() + 4, &kind, sizeof kind);
    std::memset(bytes.data() + 6, 0, 2);
    std::uint64_t length = 0;
    std::memcpy(&length, bytes.data() + 24, sizeof length);
    std::memset(bytes.data() + 48, 0, 4);
    const auto check = static_cast<std::uint32_t>(cleave::hash_of(bytes.first(kHeaderBytes - 4)));
    std::memcpy(bytes.data() + kHeaderBytes - 4, &check, sizeof check);
    bytes = bytes.subspan(kHeaderBytes);
    if (kind == static_cast<std::uint16_t>(FrameKind::Credit) || length == 0) continue;
    const std::size_t trailer = integrity == Integrity::Checksum ? kTrailerBytes : 0;
    if (length > kMost || length + trailer > bytes.size()) return;
    const std::uint64_t sum = cleave::hash_of(bytes.first(length));
    std::memcpy(bytes.data() + length, &sum, trailer);
    bytes = bytes.subspan(length + trailer);
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size < 2) return 0;
  std::vector<std::byte> bytes(size - 1);
  std::memcpy(bytes.data(), data + 1, size - 1);
  const Integrity integrity = data[0] % 4 == 3 ? Integrity::Connection : Integrity::Checksum;
  if (data[0] & 1) mend(bytes, integrity);
  FuzzSource source(bytes, 1 + data[0] / 2);
  FuzzSink sink;
  static FrameReader reader;
  reader.reset();
  reader.rely_on(integrity);
  try {
    while (!source.empty()) reader.advance(source, sink, 3);
    reader.advance(source, sink, 1000);
  } catch (const ProtocolError&) {
  }
  return 0;
}
