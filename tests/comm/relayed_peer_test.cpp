// A device that calls another through the server: who it is, and who the server is.

#include <chrono>
#include <optional>
#include <string>
#include <thread>

#include "comm/server_fixture.h"
#include <gtest/gtest.h>
#include <poll.h>

#include "cleave/base/check.h"
#include "cleave/base/version.h"
#include "cleave/comm/tcp/opening.h"
#include "cleave/comm/tcp/tcp_lines.h"

namespace cleave::comm {
namespace {

/// Letters over a connection of one's own, as a program of an attacker has them.
class Conversation {
 public:
  explicit Conversation(const Address& address) : stream_(Stream::connect(address, nullptr)) {
    while (!stream_.open()) look();
  }

  Letter ask(const Letter& letter) {
    letters_.put(letter);
    while (!letters_.flush(stream_)) look();
    for (;;) {
      if (std::optional<Letter> reply = letters_.take(stream_)) return *reply;
      look();
    }
  }

 private:
  void look() {
    pollfd polled{.fd = stream_.socket(), .events = POLLIN, .revents = 0};
    poll(&polled, 1, 10);
  }

  Stream stream_;
  LetterBox letters_{4096};
};

class RelayedPeer : public ServerTest {
 protected:
  /// What device 0 answers to device 2, which calls it through the server and says that it is
  /// device `from`.
  Letter answer_to(int from) {
    start(3, /*insecure=*/true);
    Caller own(*server_, "a", server_->own_key()), honest(*server_, "b");
    std::optional<Caller> caller(std::in_place, *server_, "c");
    begin(3);
    const Assignment assignment = own.line().await_epoch({}).value();
    std::jthread callee([&] {
      Listener listener({"127.0.0.1", 0});
      EXPECT_THROW(TcpLines({.device = 0,
                             .peers = assignment.peers,
                             .listener = &listener,
                             .server = &own.line(),
                             .epoch = assignment.epoch,
                             .program = "5eed"}),
                   DeviceLost);  // devices 1 and 2 never come
    });
    Conversation connection(server_->address());
    const std::string version(cleave::version());
    EXPECT_EQ(connection.ask({"relay", version, "2", "0"}), Letter{"connected"});
    const Letter answer =
        connection.ask(letter_of({.from = from, .to = 0, .epoch = 1, .program = "5eed"}));
    caller.reset();
    return answer;
  }
};

TEST_F(RelayedPeer, IsTheDeviceThatTheServerConnects) {
  EXPECT_EQ(answer_to(2), (Letter{"welcome", "0"}));
}

// Device 0 would drop its connection to device 1, and give device 2 the weights and gradients.
TEST_F(RelayedPeer, CannotTakeThePlaceOfAnother) {
  EXPECT_EQ(answer_to(1), (Letter{"refused",
                                  "it says that it is device 1, and the server that it is device "
                                  "2"}));
}

/// How a device fares that is to reach another through a server.
struct Attempt {
  std::string failure;
  std::optional<Letter> request;  ///< what the server has heard
};

/// It expects `expected`, at whose address somebody shows `shown` and answers with `answer`.
Attempt go_through(const ServerContact& expected, const Tls* shown, const Letter& answer) {
  Listener listener({"127.0.0.1", 0});
  Opening opening(Stream::connect({"127.0.0.1", listener.port()}, expected.tls),
                  Clock::now() + 10s);
  opening.go_through_server({.server = expected, .request = {"answer", "0", "token"}, .other = 0});
  std::optional<Stream> server;
  LetterBox letters(4096);
  Attempt attempt;
  for (;;) {
    try {
      opening.advance([](const Greeting&, const Opening&) { return 0; });
    } catch (const ProtocolError& error) {
      attempt.failure = error.what();
      return attempt;
    }
    if (!server) server = listener.accept(shown);
    if (!server || !server->open()) continue;
    if (attempt.request || !(attempt.request = letters.take(*server))) continue;
    letters.put(answer);
    letters.flush(*server);
  }
}

TEST(RelayedOpening, TellsNothingToAServerThatIsAnother) {
  const Identity device = make_authority("device", kDay), server = make_authority("server", kDay),
                 impostor = make_authority("impostor", kDay);
  const Tls own(device), shown(impostor);

  const Attempt attempt =
      go_through({.tls = &own, .fingerprint = read_certificate(server.certificate).fingerprint},
                 &shown, {"connected"});

  EXPECT_EQ(attempt.failure,
            "it is not the server that invited this device: its certificate has another "
            "fingerprint");
  EXPECT_FALSE(attempt.request.has_value());
}

TEST(RelayedOpening, FailsWithWhatTheServerSays) {
  EXPECT_EQ(go_through({}, nullptr, {"refused", "nobody has called"}).failure,
            "the server does not connect: nobody has called");
  EXPECT_EQ(go_through({}, nullptr, {}).failure,
            "the server does not connect: it answers with nothing");
}

}  // namespace
}  // namespace cleave::comm
