#include "cleave/comm/tcp/stream.h"

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include <gtest/gtest.h>
#include <linux/tcp.h>
#include <netinet/in.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#include "cleave/comm/tcp/listener.h"

namespace cleave::comm {
namespace {

int send_buffer(const Stream& stream) {
  int bytes = 0;
  socklen_t size = sizeof bytes;
  getsockopt(stream.socket(), SOL_SOCKET, SO_SNDBUF, &bytes, &size);
  return bytes;
}

std::string congestion_control(const Stream& stream) {
  char name[16] = {};
  socklen_t size = sizeof name;
  getsockopt(stream.socket(), IPPROTO_TCP, TCP_CONGESTION, name, &size);
  return name;
}

/// How many packets with data have left a stream.
std::size_t packets(const Stream& stream) {
  tcp_info info{};
  socklen_t size = sizeof info;
  getsockopt(stream.socket(), IPPROTO_TCP, TCP_INFO, &info, &size);
  return info.tcpi_data_segs_out;
}

/// How many bytes the system holds for a stream to read.
int unread(const Stream& stream) {
  int bytes = 0;
  ioctl(stream.socket(), FIONREAD, &bytes);
  return bytes;
}

constexpr std::size_t kRecord = 16 * 1024;
constexpr int kSealed = kRecord + 22;

/// Both ends of a connection within this machine.
struct Ends {
  explicit Ends(const Tls* tls) : calls(Stream::connect({"127.0.0.1", listener.port()}, tls)) {
    while (!called) called = listener.accept(tls);
    for (bool open = false; !open;) {
      const bool one = calls.open(), other = called->open();
      open = one && other;
    }
  }

  Listener listener{{"127.0.0.1", 0}};
  Stream calls;
  std::optional<Stream> called;
};

// Left to itself the system lets megabytes pile up, which leave the cache before they are read. It
// counts twice what it is told.
TEST(Stream, HasLittleOnItsWayWithinOneMachine) {
  const Ends ends(nullptr);

  EXPECT_LE(send_buffer(ends.calls), 2 * 512 * 1024);
  EXPECT_LE(send_buffer(*ends.called), 2 * 512 * 1024);
}

// Others set timers between packets, which take longer than the packets.
TEST(Stream, LeavesPacingToNetworks) {
  const Ends ends(nullptr);

  EXPECT_EQ(congestion_control(ends.calls), "reno");
  EXPECT_EQ(congestion_control(*ends.called), "reno");
}

// As many as are sent at a time, each full: a buffer that has room for exactly so many, or a few of
// them, never ends within one (kReadRoom).
TEST(Stream, SealsFullRecordsOfTls) {
  const Tls tls(make_authority("stream", std::chrono::hours(1)));
  Ends ends(&tls);
  constexpr std::size_t kRecords = 8;
  const std::vector<std::byte> bytes(kRecords * kRecord);
  std::vector<std::uint8_t> sealed(kRecords * kSealed + 1);

  std::size_t sent = 0, got = 0;
  while (sent < bytes.size() || got < kRecords * kSealed) {
    if (sent < bytes.size()) sent += ends.calls.write(std::span(bytes).subspan(sent));
    const ssize_t more = recv(ends.called->socket(), &sealed[got], sealed.size() - got, 0);
    if (more > 0) got += static_cast<std::size_t>(more);
  }

  EXPECT_EQ(got, kRecords * kSealed);
  for (std::size_t record = 0; record < kRecords; ++record)
    EXPECT_EQ(sealed[record * kSealed + 3] << 8 | sealed[record * kSealed + 4], kSealed - 5);
}

// A packet on the loopback interface has room for almost four records. Eight leave together, as
// three packets; in calls of their own they would be eight, in calls of four records four.
TEST(Stream, SendsSeveralRecordsOfTlsTogether) {
  const Tls tls(make_authority("stream", std::chrono::hours(1)));
  Ends ends(&tls);
  constexpr std::size_t kMiB = 1024 * 1024;
  const std::vector<std::byte> bytes(4 * kMiB);
  std::vector<std::byte> into(bytes.size());
  const std::size_t before = packets(ends.calls);

  for (std::size_t sent = 0, got = 0; sent < bytes.size();) {
    sent += ends.calls.write(std::span(bytes).subspan(sent));
    while (got < sent) got += ends.called->read(std::span(into).subspan(got));
  }

  EXPECT_LT(packets(ends.calls) - before, bytes.size() / kRecord / 2);
}

// What one call takes from the system is decrypted while the other end encrypts what follows.
TEST(Stream, ReadsAFewRecordsOfTlsTogether) {
  const Tls tls(make_authority("stream", std::chrono::hours(1)));
  Ends ends(&tls);
  const std::vector<std::byte> bytes(1024 * 1024);
  std::vector<std::byte> into(bytes.size());

  int most = 0;
  for (std::size_t sent = 0, got = 0; got < bytes.size();) {
    if (sent < bytes.size()) sent += ends.calls.write(std::span(bytes).subspan(sent));
    const int before = unread(*ends.called);
    got += ends.called->read(std::span(into).subspan(got, std::min(kRecord, bytes.size() - got)));
    most = std::max(most, before - unread(*ends.called));
  }

  EXPECT_GT(most, 2 * kSealed);
  EXPECT_LE(most, 4 * kSealed);
}

// As of "localhost", which is ::1 as well where there is IPv6.
TEST(Stream, ConnectsToWhicheverAddressAnswers) {
  const Identity identity = make_authority("server", std::chrono::hours(1));
  const Tls tls(identity);
  const std::uint16_t closed = Listener({"127.0.0.1", 0}).port();
  for (const Tls* const with : {static_cast<const Tls*>(nullptr), &tls}) {
    Listener listener({"127.0.0.1", 0});
    Stream calls =
        Stream::connect_to_any({{"127.0.0.1", closed}, {"127.0.0.1", listener.port()}}, with);
    std::optional<Stream> called;
    for (bool open = false; !open;) {
      const bool one = calls.open();
      if (!called) called = listener.accept(with);
      open = called && called->open() && one;
    }
    EXPECT_EQ(calls.remote(), "127.0.0.1:" + std::to_string(listener.port()));
  }
}

TEST(Stream, FailsOnceNoAddressAnswers) {
  const std::uint16_t closed = Listener({"127.0.0.1", 0}).port();
  Stream stream = Stream::connect_to_any({{"127.0.0.1", closed}, {"127.0.0.1", closed}}, nullptr);
  const auto open = [&] {
    while (!stream.open()) continue;
  };
  EXPECT_THROW(open(), ConnectionBroken);
  EXPECT_TRUE(stream.is_connecting()) << "nobody is there";
}

}  // namespace
}  // namespace cleave::comm
