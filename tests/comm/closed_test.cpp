// What the server does not let in, by name in its log; the run that goes on meanwhile notices
// nothing.

#include <cstring>
#include <functional>
#include <random>

#include "comm/server_fixture.h"
#include <poll.h>
#include <sys/resource.h>

#include "cleave/base/version.h"
#include "cleave/comm/tcp/frame.h"
#include "cleave/comm/tcp/letter_box.h"

namespace cleave::comm {
namespace {

const std::string kVersion(version());

/// A connection that does as it likes.
class Stranger {
 public:
  explicit Stranger(const Server& server, const Tls* tls = nullptr)
      : stream_(Stream::connect(server.address(), tls)) {
    while (!stream_.open()) look();
  }

  void send(std::span<const std::byte> bytes) {
    for (std::size_t at = 0; at < bytes.size();) at += stream_.write(bytes.subspan(at));
  }
  void send(const std::string& text) { send(std::as_bytes(std::span(text))); }

  void say(const Letter& letter) {
    letters_.put(letter);
    while (!letters_.flush(stream_)) look();
  }

  /// What the server answers to `letter`, as one line.
  std::string answer(const Letter& letter) {
    say(letter);
    for (;;) {
      if (const std::optional<Letter> said = letters_.take(stream_)) {
        std::string line;
        for (const std::string& field : *said) line += (line.empty() ? "" : " ") + field;
        return line;
      }
      look();
    }
  }

 private:
  void look() {
    pollfd polled{.fd = stream_.socket(), .events = POLLIN, .revents = 0};
    poll(&polled, 1, 20);
  }

  Stream stream_;
  LetterBox letters_{kLongestLetter};
};

/// A frame whose payload is zeros, without a checksum after it.
std::vector<std::byte> unsummed_frame(FrameHeader header, std::size_t payload) {
  std::vector<std::byte> bytes(kHeaderBytes + payload);
  encode(header, std::span(bytes).first<kHeaderBytes>());
  return bytes;
}

/// A run of two devices, of which every test tries to disturb the peace.
class ClosedTest : public ServerTest {
 protected:
  void begin_run(Clock::duration first_word_within = 10s) {
    start(2, /*insecure=*/true, Latecomers::Welcome, first_word_within);
    own_ = std::make_unique<Caller>(*server_, "own", server_->own_key());
    other_ = std::make_unique<Caller>(*server_, "other");
    begin(2);
    EXPECT_EQ(own_->epoch(), 1u);
    EXPECT_EQ(other_->epoch(), 1u);
  }

  /// The two devices have heard of no loss, and the server still answers.
  void expect_peace() {
    const Letter status = ask_server({.address = server_->address()}, {"status"});
    EXPECT_EQ(status.at(1), "running");
    for (Caller* device : {own_.get(), other_.get()}) {
      device->line().say({"alive"});
      device->line().advance();
      EXPECT_EQ(device->line().epoch_over(), "");
    }
  }

  std::unique_ptr<Caller> own_, other_;
};

TEST_F(ClosedTest, RefusesLettersByWhatIsWrongWithThem) {
  begin_run();
  const std::string address = server_->address().host;
  const struct {
    Letter letter;
    std::string answer;
  } cases[] = {{{"join"}, "a letter of 1 fields"},
               {{"status", "0.0.0"}, "it runs cleave 0.0.0, this is cleave " + kVersion},
               {{"open", kVersion}, "a letter that there is not"},
               {{"join", kVersion, "x"}, "a letter \"join\" of 3 fields where 8 are due"},
               {{"join", kVersion, "x", "much", "1", "0", "", ""}, "a number was due in a letter"},
               {{"join", kVersion, "x", "-1", "1", "0", "", ""}, "a number was due in a letter"},
               {{"join", kVersion, "x", "99999999999999999999", "1", "0", "", ""},
                "a number was due in a letter"},
               {{"join", kVersion, "x", "0", "70000", "0", "", ""}, "port 70000"},
               {{"join", kVersion, "x", "0", "1", "0", server_->own_key(), ""},
                "the server's own device is here already"},
               {{"relay", kVersion, "0", "7"}, "no such devices"},
               {{"relay", kVersion, "1", "1"}, "no such devices"},
               {{"answer", kVersion, "0123"}, "nobody has called"},
               {{"enrol", kVersion, "token", "key", "name"}, "this server uses no certificates"},
               {{"renew", kVersion, "key"}, "this server uses no certificates"}};
  for (const auto& [letter, answer] : cases) {
    EXPECT_EQ(Stranger(*server_).answer(letter), "refused " + answer);
    EXPECT_TRUE(logged(": " + answer)) << answer;
  }
  expect_peace();
}

TEST_F(ClosedTest, RefusesAFirstLetterThatIsTooLong) {
  begin_run();
  Stranger stranger(*server_);
  stranger.send(unsummed_frame({.kind = FrameKind::Letter, .length = 4097}, 0));
  EXPECT_TRUE(logged("a letter of 4097 B where at most 4096 B are allowed"));
  expect_peace();
}

TEST_F(ClosedTest, RefusesFramesThatBelongToRuns) {
  begin_run();
  for (const FrameKind kind : {FrameKind::Data, FrameKind::Credit, FrameKind::Farewell})
    Stranger(*server_).send(unsummed_frame({.kind = kind, .length = 8, .sequence = 1}, 16));
  EXPECT_TRUE(logged("a frame where a letter was due"));
  expect_peace();
}

TEST_F(ClosedTest, RefusesADamagedLetter) {
  begin_run();
  LetterBox letters(kLongestLetter);
  const std::vector<std::byte> payload = pack(Letter{"status", kVersion});
  std::vector<std::byte> bytes = unsummed_frame(
      {.kind = FrameKind::Letter, .length = payload.size()}, payload.size() + kTrailerBytes);
  std::memcpy(bytes.data() + kHeaderBytes, payload.data(), payload.size());
  Stranger stranger(*server_);
  stranger.send(bytes);  // with a checksum of noughts
  EXPECT_TRUE(logged("refused 127.0.0.1:"));
  expect_peace();
}

TEST_F(ClosedTest, OutlivesFramesThatEndInTheMiddle) {
  begin_run();
  const auto bytes = unsummed_frame({.kind = FrameKind::Letter, .length = 100}, 100);
  for (const std::size_t length : {1, 55, 56, 57, 155}) {
    Stranger stranger(*server_);
    stranger.send(std::span(bytes).first(length));
  }
  EXPECT_TRUE(logged(": it ended in the middle of its first letter"));
  expect_peace();
}

TEST_F(ClosedTest, OutlivesRandomBytes) {
  begin_run();
  std::mt19937 random(7);
  for (int i = 0; i < 50; ++i) {
    std::string text(random() % 300, '\0');
    for (char& c : text) c = static_cast<char>(random());
    Stranger(*server_).send(text);
  }
  EXPECT_TRUE(logged("this is not cleave's protocol"));
  expect_peace();
}

TEST_F(ClosedTest, DoesNotWaitForOneWhoSpeaksSlowly) {
  begin_run(/*first_word_within=*/1s);
  Stranger slow(*server_);
  const auto bytes = unsummed_frame({.kind = FrameKind::Letter, .length = 100}, 0);
  for (std::size_t at = 0; at < 20; ++at) {
    try {
      slow.send(std::span(bytes).subspan(at, 1));
    } catch (const ConnectionBroken&) {
      break;  // as it should
    }
    std::this_thread::sleep_for(100ms);
  }
  EXPECT_TRUE(logged("no letter within 1.00 s"));
  expect_peace();
}

TEST_F(ClosedTest, OutlivesAThousandWhoSayNothing) {
  rlimit files{};
  getrlimit(RLIMIT_NOFILE, &files);
  files.rlim_cur = std::min<rlim_t>(files.rlim_max, 4096);
  setrlimit(RLIMIT_NOFILE, &files);
  begin_run();
  std::vector<Stranger> silent;
  silent.reserve(1000);
  for (int i = 0; i < 1000; ++i) {
    silent.emplace_back(*server_);
    if (i % 100 == 0) own_->line().say({"alive"}), other_->line().say({"alive"});
  }
  EXPECT_TRUE(logged(": 128 others have come since, and it has said nothing yet"));
  expect_peace();
}

TEST_F(ClosedTest, TakesASeatFromADeviceWhoseLetterIsTooLong) {
  begin_run();
  {
    Stranger guest(*server_);
    guest.say({"join", kVersion, "guest", "0", "1", "0", "", ""});
    EXPECT_TRUE(logged("\"guest\" at "));
    guest.send(unsummed_frame({.kind = FrameKind::Letter, .length = kLongestLetter + 1}, 0));
    EXPECT_TRUE(logged("where at most " + std::to_string(kLongestLetter) + " B are allowed"));
  }
  EXPECT_TRUE(logged("\"guest\" has left: a frame of "));
  expect_peace();
}

TEST_F(ClosedTest, TakesASeatFromADeviceThatTalksNonsense) {
  begin_run();
  other_->line().say({"give", "me", "the", "weights"});
  EXPECT_EQ(own_->over(), "device 1 is lost (a letter in the middle of a run)");
  EXPECT_TRUE(logged("device 1 (other) is lost: a letter in the middle of a run"));
}

TEST_F(ClosedTest, SpeaksOnlyTlsWhereItIsAskedTo) {
  start(1);
  Stranger plain(*server_);
  plain.say({"status", kVersion});
  EXPECT_THROW(plain.answer({"status", kVersion}), ConnectionBroken);
  EXPECT_TRUE(logged(": no TLS: "));
}

// A greeting that knows no newer version than 1.2: one cipher suite, no extensions.
TEST_F(ClosedTest, SpeaksNoOlderTls) {
  start(1);
  std::string hello = {0x16, 3, 1, 0, 45, 1, 0, 0, 41, 3, 3};
  hello += std::string(32, 'r') + std::string{0, 0, 2, '\xc0', 0x2f, 1, 0};
  Stranger old(*server_);
  old.send(hello);
  EXPECT_TRUE(logged(": no TLS: "));
  EXPECT_TRUE(logged("unsupported protocol"));
}

TEST_F(ClosedTest, SpeaksNoTlsWhereItIsNotAskedTo) {
  begin_run();
  const Tls tls({});
  EXPECT_THROW(Stranger(*server_, &tls), ConnectionBroken);
  EXPECT_TRUE(logged("this is not cleave's protocol"));
  expect_peace();
}

TEST_F(ClosedTest, ACertificateIsGoodForOneDeviceAtATime) {
  start(3);
  const Identity identity = enrol("phone");
  const Tls tls(identity);
  ServerLine first(contact(tls));
  first.open();
  first.join({.name = "phone", .port = 1});
  EXPECT_TRUE(logged("has joined"));
  EXPECT_EQ(refusal(identity),
            "the server refuses: a device with this certificate is here already; enrol each device "
            "by itself");
}

TEST_F(ClosedTest, ADeviceSpeaksForItselfOnly) {
  start(2);
  const Identity a = enrol("a"), b = enrol("b");
  const Tls tls_a(a), tls_b(b);
  ServerLine own(contact(tls_a)), other(contact(tls_b));
  own.open();
  own.join({.name = "a", .port = 1, .key = server_->own_key()});
  other.open();
  other.join({.name = "b", .port = 1});
  begin(2);
  // The server gives devices their numbers on its own thread, soon after it was asked to.
  std::string refused = "no such devices";
  for (int i = 0; i < 6'000 && refused.ends_with("no such devices"); ++i) {
    std::this_thread::sleep_for(10ms);
    refused = testing::user_error([&] { ask_server(contact(tls_b), {"relay", "0", "1"}); });
  }
  EXPECT_EQ(refused, "the server refuses: it is not device 0");
}

TEST_F(ClosedTest, EnrolsNoKeyThatIsNone) {
  start(1);
  const Invitation invitation = parse_invitation(registry_.invite(10min));
  const Tls stranger({});
  EXPECT_NE(testing::user_error([&] {
              ask_server(contact(stranger), {"enrol", invitation.token, "no key", "phone"});
            }),
            "");
  EXPECT_TRUE(logged("refused 127.0.0.1:"));
}

}  // namespace
}  // namespace cleave::comm
