#include "cleave/comm/tcp/server.h"

#include <atomic>
#include <chrono>
#include <mutex>
#include <string>
#include <thread>

#include "comm/bytes.h"
#include "comm/pattern.h"
#include "support/errors.h"
#include "support/temporary_directory.h"
#include <gtest/gtest.h>
#include <sys/stat.h>

#include "cleave/base/check.h"
#include "cleave/comm/communicator.h"
#include "cleave/comm/tcp/tcp_transport.h"

namespace cleave::comm {
namespace {

using namespace std::chrono_literals;
using testing::TemporaryDirectory;
using testing::user_error;

constexpr std::chrono::hours kDay{24};

/// A server, and what a device needs to come to it.
class ServerTest : public ::testing::Test {
 protected:
  void start(int devices, bool insecure = false) {
    server_ =
        std::make_unique<Server>(ServerSetup{.listen = {"127.0.0.1", 0},
                                             .registry = insecure ? nullptr : &registry_,
                                             .run = "steps = 3",
                                             .program = "5eed",
                                             .needs = std::vector<std::int64_t>(devices, 1000),
                                             .log = [this](const std::string& line) {
                                               const std::lock_guard lock(mutex_);
                                               log_ += line + "\n";
                                             }});
  }

  Identity enrol(const std::string& name) {
    const Invitation invitation = parse_invitation(registry_.invite(10min));
    const Tls stranger({});
    Identity identity{.key = make_key()};
    const Letter reply = ask_server(contact(stranger),
                                    {"enrol", invitation.token, public_key_of(identity.key), name});
    identity.certificate = reply.at(1);
    identity.authority = reply.at(2);
    return identity;
  }

  ServerContact contact(const Tls& tls) {
    return {.address = server_->address(), .tls = &tls, .fingerprint = registry_.fingerprint()};
  }

  /// What a device that shows `identity` is told when it joins.
  std::string refusal(const Identity& identity, std::int64_t memory = 0) {
    const Tls tls(identity);
    return user_error([&] {
      ServerLine line(contact(tls));
      line.open();
      line.join({.name = "late", .memory = memory, .port = 1}, [](int) {});
    });
  }

  bool logged(const std::string& text) {
    for (int look = 0; look < 200; ++look) {
      {
        const std::lock_guard lock(mutex_);
        if (log_.find(text) != std::string::npos) return true;
      }
      std::this_thread::sleep_for(10ms);
    }
    return false;
  }

  TemporaryDirectory directory_;
  Registry registry_{directory_.path() / "server"};
  std::unique_ptr<Server> server_;
  std::mutex mutex_;
  std::string log_;
};

enum class Reach { Direct, ServerOnly };

/// Joins and runs `work`; with ServerOnly no other device can call it.
void run_device(const ServerContact& contact, const Offer& offer, Reach reach,
                const std::function<void(Communicator&)>& work) {
  Listener listener({"127.0.0.1", 0});
  ServerLine line(contact);
  line.open();
  Offer mine = offer;
  mine.port = reach == Reach::Direct ? listener.port() : 1;
  const Assignment assignment = line.join(mine, [](int) {});
  TcpTransport transport({.device = assignment.device,
                          .peers = assignment.peers,
                          .listener = &listener,
                          .tls = contact.tls,
                          .server = &line,
                          .program = assignment.program});
  Communicator world(transport);
  work(world);
  line.say_bye();
}

void play_some(Communicator& world) {
  std::mt19937 random(3);
  testing::play(world, testing::random_pattern(world.size(), random), 3);
  double sum[] = {1};
  world.combine(sum, Combine::Sum);
  EXPECT_EQ(sum[0], world.size());
}

TEST_F(ServerTest, BringsDevicesTogetherDirectlyAndThroughItself) {
  for (const Reach reach : {Reach::Direct, Reach::ServerOnly}) {
    start(3);
    std::vector<std::thread> threads;
    for (int i = 0; i < 3; ++i) {
      const Identity identity = enrol("device-" + std::to_string(i));
      threads.emplace_back([&, i, identity] {
        const Tls tls(identity);
        run_device(
            contact(tls),
            {.name = identity.certificate.substr(0, 8), .key = i == 0 ? server_->own_key() : ""},
            reach, play_some);
      });
    }
    for (std::thread& thread : threads) thread.join();
    EXPECT_EQ(logged("through the server"), reach == Reach::ServerOnly);
  }
}

TEST_F(ServerTest, WorksWithoutTlsOnTheLoopbackInterface) {
  start(2, /*insecure=*/true);
  const ServerContact contact{.address = server_->address()};
  std::thread other([&] { run_device(contact, {.name = "b"}, Reach::Direct, play_some); });
  run_device(contact, {.name = "a", .key = server_->own_key()}, Reach::Direct, play_some);
  other.join();
}

TEST_F(ServerTest, RefusesPlaintextOnOtherInterfaces) {
  EXPECT_EQ(user_error([] {
              Server({.listen = {"0.0.0.0", 0}, .needs = {1}});
            }),
            "--insecure is for the loopback interface; 0.0.0.0:0 can be reached from elsewhere: "
            "listen on 127.0.0.1, or leave --insecure out");
}

TEST_F(ServerTest, RefusesByName) {
  start(2);
  EXPECT_EQ(refusal({}),
            "the server refuses: it shows no certificate; enrol it first with an invitation");
  const Identity good = enrol("good");
  EXPECT_EQ(refusal(good, 999), "the server refuses: it offers 999 B, and device 1 needs 0.98 KiB");

  registry_.revoke("good");
  EXPECT_EQ(refusal(good), "the server refuses: its certificate was revoked");
  EXPECT_TRUE(logged("(good): its certificate was revoked"));

  Identity expired{.key = make_key(), .authority = good.authority};
  expired.certificate =
      certify(registry_.authority(), public_key_of(expired.key), "old", -std::chrono::hours(1));
  EXPECT_EQ(refusal(expired),
            "the server refuses: its certificate is not accepted: certificate has expired");

  const Identity stranger = make_authority("another server", kDay);
  EXPECT_NE(refusal(stranger).find("its certificate is not accepted: self-signed certificate"),
            std::string::npos);

  Identity unknown{.key = make_key(), .authority = good.authority};
  unknown.certificate =
      certify(registry_.authority(), public_key_of(unknown.key), "forgotten", kDay);
  EXPECT_EQ(refusal(unknown), "the server refuses: this server has enrolled no such device");
}

TEST_F(ServerTest, TakesAnInvitationOnce) {
  start(1);
  const Invitation invitation = parse_invitation(registry_.invite(10min));
  const Tls stranger({});
  const auto enrol_with = [&](const std::string& token) {
    return ask_server(contact(stranger), {"enrol", token, public_key_of(make_key()), "phone"});
  };
  EXPECT_EQ(enrol_with(invitation.token).front(), "certificate");
  EXPECT_EQ(user_error([&] { enrol_with(invitation.token); }),
            "the server refuses: that invitation was used already; ask for another");
  EXPECT_EQ(user_error([&] { enrol_with(random_token()); }),
            "the server refuses: this server did not write that invitation");
  const Invitation late = parse_invitation(registry_.invite(0min));
  EXPECT_EQ(user_error([&] { enrol_with(late.token); }),
            "the server refuses: that invitation has expired; ask for another");
}

TEST_F(ServerTest, IsNotTakenForAnother) {
  start(1);
  const Tls stranger({});
  ServerContact wrong = contact(stranger);
  wrong.fingerprint[0] = wrong.fingerprint[0] == '0' ? '1' : '0';
  EXPECT_THROW(ask_server(wrong, {"status"}), DeviceLost);
}

TEST_F(ServerTest, OutlivesThoseWhoSayNothingOrNonsense) {
  start(1, /*insecure=*/true);
  std::vector<Stream> silent;
  for (int i = 0; i < 300; ++i) {
    silent.push_back(Stream::connect(server_->address(), nullptr));
    const std::string nonsense = "GET / HTTP/1.1\r\nHost: nobody\r\n\r\n" + std::string(100, 'x');
    if (i % 3 == 0) silent.back().write(std::as_bytes(std::span(nonsense)));
  }
  const Letter status = ask_server({.address = server_->address()}, {"status"});
  EXPECT_EQ(status.at(1), "waiting");
  EXPECT_TRUE(logged("this is not cleave's protocol"));
}

TEST_F(ServerTest, TellsTheOthersAtOnceThatADeviceIsGone) {
  start(2, /*insecure=*/true);
  const ServerContact contact{.address = server_->address()};
  std::atomic<bool> together = false;
  std::thread other([&] {
    Listener listener({"127.0.0.1", 0});
    auto line = std::make_unique<ServerLine>(contact);
    line->open();
    line->join({.name = "b", .port = listener.port()}, [](int) {});
    together = true;
    line.reset();  // without a word
  });
  Listener listener({"127.0.0.1", 0});
  ServerLine line(contact);
  line.open();
  const Assignment assignment =
      line.join({.name = "a", .port = listener.port(), .key = server_->own_key()}, [](int) {});
  other.join();
  for (int look = 0; look < 500 && line.lost(1) == nullptr; ++look) {
    line.advance();
    std::this_thread::sleep_for(10ms);
  }
  ASSERT_NE(line.lost(1), nullptr);
  EXPECT_TRUE(logged("device 1 (b) is lost: closed by the other end"));
}

TEST(Registry, KeepsKeysToItself) {
  const TemporaryDirectory directory;
  const std::filesystem::path path = directory.path() / "server";
  const std::string first = Registry(path).fingerprint();
  EXPECT_EQ(Registry(path).fingerprint(), first);
  struct stat status {};
  ASSERT_EQ(stat((path / "key.pem").c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 0777, 0600u);

  chmod((path / "key.pem").c_str(), 0644);
  EXPECT_NE(user_error([&] { Registry registry(path); }).find("others may read the private key"),
            std::string::npos);
}

}  // namespace
}  // namespace cleave::comm
