// What vouches for payloads is told in the greeting, and follows from the connection alone.

#include <string>
#include <thread>

#include "comm/tcp_devices.h"
#include <gtest/gtest.h>
#include <poll.h>

#include "cleave/base/check.h"
#include "cleave/comm/tcp/listener.h"
#include "cleave/comm/tcp/opening.h"

namespace cleave::comm {
namespace {

using namespace std::chrono_literals;
using testing::TcpDevices;
using testing::Wire;

/// What device 0 answers to device 1, which greets as it should but for `integrity`.
std::string answer_to(Wire wire, Integrity integrity) {
  TcpDevices devices(2, wire);
  const TcpSetup& own = devices.setup(1);
  std::string answer;
  std::jthread other([&] {
    Stream stream = Stream::connect(own.peers[0].address, own.tls);
    LetterBox letters(4096);
    const auto look = [&] {
      const short events = static_cast<short>(POLLIN | (stream.awaits_room() ? POLLOUT : 0));
      pollfd polled{.fd = stream.socket(), .events = events, .revents = 0};
      poll(&polled, 1, 10);
    };
    while (!stream.open()) look();
    letters.put(letter_of(
        {.from = 1, .to = 0, .epoch = 1, .program = own.program, .integrity = integrity}));
    while (!letters.flush(stream)) look();
    std::optional<Letter> letter;
    while (!(letter = letters.take(stream))) look();
    answer = letter->at(0) + ": " + letter->at(1);
  });
  try {
    TcpSetup setup = devices.setup(0);
    setup.open_within = 1s;
    const TcpTransport transport(setup);
  } catch (const DeviceLost&) {
    // Device 1 was refused.
  }
  other.join();
  return answer;
}

TEST(Integrity, IsOfChecksumsWithoutTls) {
  EXPECT_EQ(answer_to(Wire::Plain, Integrity::Checksum), "welcome: 0");
  EXPECT_EQ(answer_to(Wire::Plain, Integrity::Connection),
            "refused: its payloads are vouched for by the connection, on this connection by "
            "checksums");
}

TEST(Integrity, IsOfTheConnectionWithTls) {
  EXPECT_EQ(answer_to(Wire::Tls, Integrity::Connection), "welcome: 0");
  EXPECT_EQ(answer_to(Wire::Tls, Integrity::Checksum),
            "refused: its payloads are vouched for by checksums, on this connection by the "
            "connection");
}

// The server opens what it passes on, so TLS vouches for no more than the way there.
TEST(Integrity, IsOfChecksumsThroughTheServer) {
  TcpDevices devices(2, Wire::Tls);
  const TcpSetup& setup = devices.setup(1);
  Opening opening(Stream::connect(setup.peers[0].address, setup.tls), Clock::now() + 1s);
  EXPECT_EQ(opening.integrity(), Integrity::Connection);
  opening.go_through_server({.request = {"answer"}, .other = 1});
  EXPECT_EQ(opening.integrity(), Integrity::Checksum);
}

TEST(Integrity, IsNamedInEveryGreeting) {
  Letter letter = letter_of({.from = 1, .to = 0, .program = "5eed"});
  EXPECT_EQ(read_greeting(letter).integrity, Integrity::Checksum);
  letter.back() = "good will";
  EXPECT_THROW(read_greeting(letter), ProtocolError);
}

}  // namespace
}  // namespace cleave::comm
