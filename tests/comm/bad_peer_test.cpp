// A device that was let in and then breaks the protocol: the one that it talks to says how, and
// nothing is written where it does not belong.

#include <atomic>
#include <cstring>
#include <optional>
#include <thread>

#include "comm/bytes.h"
#include "support/errors.h"
#include <gtest/gtest.h>
#include <poll.h>

#include "cleave/base/check.h"
#include "cleave/comm/communicator.h"
#include "cleave/comm/tcp/opening.h"
#include "cleave/comm/tcp/tcp_lines.h"
#include "cleave/comm/tcp/tcp_transport.h"

namespace cleave::comm {
namespace {

using namespace std::chrono_literals;

constexpr std::size_t kMessage = 64;

/// Notices that the other end has posted its receive.
struct CreditWatch final : FrameSink {
  std::span<std::byte> begin_frame(const FrameHeader& header) override {
    seen |= header.kind == FrameKind::Credit;
    return {};
  }
  void end_frame(const FrameHeader& /*header*/) override {}

  bool seen = false;
};

/// Device 1, which greets as it should, waits until it may send, and then says what it likes.
void misbehave(std::uint16_t port, const std::vector<std::byte>& bytes) {
  Stream stream = Stream::connect({"127.0.0.1", port}, nullptr);
  LetterBox letters(4096);
  const auto look = [&] {
    pollfd polled{.fd = stream.socket(), .events = POLLIN, .revents = 0};
    poll(&polled, 1, 10);
  };
  while (!stream.open()) look();
  letters.put(letter_of({.from = 1, .to = 0, .epoch = 1, .program = "5eed"}));
  while (!letters.flush(stream)) look();
  while (!letters.take(stream)) look();
  CreditWatch credit;
  FrameReader reader = letters.release_reader();
  while (reader.advance(stream, credit, 1) == 0 || !credit.seen) look();
  for (std::size_t at = 0; at < bytes.size();) at += stream.write(std::span(bytes).subspan(at));
  // Until the other end closes.
  std::vector<std::byte> rest(1 << 16);
  try {
    for (int i = 0; i < 100; ++i) {
      if (stream.read(rest) == 0) look();
    }
  } catch (const ConnectionBroken&) {
  }
}

/// A frame with the checksum that its payload should have.
std::vector<std::byte> frame(FrameHeader header, std::size_t payload) {
  header.epoch = header.epoch == 0 ? 1 : header.epoch;
  std::vector<std::byte> bytes(kHeaderBytes + payload, std::byte{7});
  encode(header, std::span(bytes).first<kHeaderBytes>());
  if (payload == 0) return bytes;
  const std::uint64_t sum = hash_of(std::span(bytes).subspan(kHeaderBytes));
  bytes.resize(bytes.size() + kTrailerBytes);
  std::memcpy(bytes.data() + kHeaderBytes + payload, &sum, sizeof sum);
  return bytes;
}

/// What device 0 says, which waits for a message with tag 0.
std::string complaint(const std::vector<std::byte>& bytes, std::uint64_t early_bytes = 0) {
  Listener listener({"127.0.0.1", 0});
  const std::jthread bad([&] { misbehave(listener.port(), bytes); });
  std::vector<std::byte> room(kMessage, std::byte{1});
  try {
    TcpTransport transport(
        {.device = 0,
         .peers = {{.address = {"127.0.0.1", listener.port()}}, {.address = {"127.0.0.1", 1}}},
         .listener = &listener,
         .program = "5eed",
         .early_bytes = early_bytes,
         .resume_within = 200ms});
    Communicator world(transport);
    world.receive(room, 1, 0).wait();
  } catch (const DeviceLost& error) {
    return error.what();
  }
  return "";
}

TEST(BadPeer, IsNamedWithWhatItSent) {
  FrameHeader data{.kind = FrameKind::Data, .tag = 0, .length = kMessage, .sequence = 1};
  FrameHeader other_tag = data, other_length = data, later = data, other_epoch = data;
  FrameHeader acknowledges = data, letter{.kind = FrameKind::Letter, .length = 4};
  other_tag.tag = 9;
  other_length.length = 2 * kMessage;
  later.sequence = 2;
  other_epoch.epoch = 2;
  acknowledges.acknowledged = 77;
  const struct {
    FrameHeader header;
    const char* text;
  } cases[] = {
      {other_tag, "data with tag 9 and 64 B, which this device has given no credit for"},
      {other_length, "data with tag 0 and 128 B, which this device has given no credit for"},
      {later, "frame 2 where frame 1 was due"},
      {other_epoch, "a frame of epoch 2 in epoch 1"},
      {acknowledges, "it acknowledges a frame that was not sent"},
      {letter, "a letter in the middle of a run"}};
  for (const auto& [header, text] : cases) {
    const std::string said = complaint(frame(header, header.payload()));
    EXPECT_TRUE(said.starts_with("device 1 broke the protocol: " + std::string(text))) << said;
  }
}

TEST(BadPeer, SendsNoDataTwice) {
  const FrameHeader data{.kind = FrameKind::Data, .tag = 5, .length = kMessage, .sequence = 1};
  std::vector<std::byte> credit = frame({.kind = FrameKind::Credit, .length = 8, .sequence = 1}, 0);
  const std::vector<std::byte> twice =
      frame({.kind = FrameKind::Credit, .length = 8, .sequence = 1}, 0);
  credit.insert(credit.end(), twice.begin(), twice.end());
  const std::string said = complaint(credit);
  EXPECT_TRUE(said.starts_with("device 1 broke the protocol: frame 1 where frame 2 was due"))
      << said;
  EXPECT_TRUE(complaint(frame(data, kMessage)).starts_with("device 1 broke the protocol: "));
}

// The first of two has room, though nobody waits for it.
TEST(BadPeer, FillsTheRoomForEarlyMessagesAndNoMore) {
  FrameHeader data{.kind = FrameKind::Data, .tag = 9, .length = 600, .sequence = 1};
  std::vector<std::byte> both = frame(data, data.payload());
  data.sequence = 2;
  const std::vector<std::byte> second = frame(data, data.payload());
  both.insert(both.end(), second.begin(), second.end());
  const std::string said = complaint(both, 1000);
  EXPECT_TRUE(
      said.starts_with("device 1 broke the protocol: data with tag 9 and 600 B, which this "
                       "device has given no credit for"))
      << said;
  data.sequence = 1;
  EXPECT_TRUE(complaint(frame(data, data.payload()), 1000).starts_with("device 1 is lost ("));
}

TEST(BadPeer, IsNotBelievedWhenAPayloadIsDamaged) {
  std::vector<std::byte> bytes =
      frame({.kind = FrameKind::Data, .tag = 0, .length = kMessage, .sequence = 1}, kMessage);
  bytes[kHeaderBytes + 3] ^= std::byte{1};
  const std::string said = complaint(bytes);
  EXPECT_TRUE(said.starts_with("device 1 broke the protocol: the payload of a frame is damaged"))
      << said;
}

TEST(BadPeer, IsLostIfItEndsInTheMiddleOfAFrame) {
  const std::vector<std::byte> bytes =
      frame({.kind = FrameKind::Data, .tag = 0, .length = kMessage, .sequence = 1}, kMessage);
  for (const std::size_t length : {kHeaderBytes / 2, kHeaderBytes, kHeaderBytes + kMessage / 2}) {
    const std::string said = complaint({bytes.begin(), bytes.begin() + length});
    EXPECT_TRUE(said.starts_with("device 1 is lost (")) << said;
  }
}

TEST(BadPeer, CannotAnnounceMoreThanAMessage) {
  std::vector<std::byte> bytes(kHeaderBytes);
  encode({.kind = FrameKind::Data, .epoch = 1, .length = kLongestMessage + 1, .sequence = 1},
         std::span(bytes).first<kHeaderBytes>());
  const std::string said = complaint(bytes);
  EXPECT_TRUE(said.starts_with("device 1 broke the protocol: a frame of ")) << said;
}

/// Greets as device 1 and returns the answer.
Letter greet(Stream& stream) {
  LetterBox letters(4096);
  const auto look = [&] {
    pollfd polled{.fd = stream.socket(), .events = POLLIN, .revents = 0};
    poll(&polled, 1, 10);
  };
  while (!stream.open()) look();
  letters.put(letter_of({.from = 1, .to = 0, .epoch = 1, .program = "5eed"}));
  while (!letters.flush(stream)) look();
  for (;;) {
    if (std::optional<Letter> answer = letters.take(stream)) return *answer;
    look();
  }
}

// A message that was given up in the middle would be sent again from memory that is gone.
TEST(BadPeer, CannotComeBackOverALinkThatIsLost) {
  Listener listener({"127.0.0.1", 0});
  Letter first, second;
  std::atomic<bool> came = false, is_lost = false, done = false;
  const std::jthread peer([&] {
    Stream one = Stream::connect({"127.0.0.1", listener.port()}, nullptr);
    first = greet(one);
    came = true;
    while (!is_lost) std::this_thread::sleep_for(1ms);
    Stream other = Stream::connect({"127.0.0.1", listener.port()}, nullptr);
    second = greet(other);
    done = true;
  });
  TcpLines lines(
      {.device = 0,
       .peers = {{.address = {"127.0.0.1", listener.port()}}, {.address = {"127.0.0.1", 1}}},
       .listener = &listener,
       .program = "5eed",
       .resume_within = 1h});
  while (!came) lines.await_sockets(1ms);

  lines.to(1)->lose("device 0 gave up a message in the middle");
  is_lost = true;
  while (!done) lines.await_sockets(1ms);

  EXPECT_EQ(first, (Letter{"welcome", "0"}));
  EXPECT_EQ(second, (Letter{"refused", "device 0 gave up a message in the middle"}));
  EXPECT_FALSE(lines.to(1)->connected());
}

}  // namespace
}  // namespace cleave::comm
