#include "cleave/comm/tcp/server.h"

#include <chrono>
#include <mutex>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "comm/bytes.h"
#include "comm/pattern.h"
#include "comm/server_fixture.h"
#include "support/errors.h"
#include "support/temporary_directory.h"
#include <gtest/gtest.h>

#include "cleave/base/check.h"
#include "cleave/comm/communicator.h"
#include "cleave/comm/tcp/listener.h"
#include "cleave/comm/tcp/tcp_transport.h"

namespace cleave::comm {
namespace {

using namespace std::chrono_literals;
using testing::TemporaryDirectory;
using testing::user_error;

enum class Reach { Direct, ServerOnly };

/// Joins and runs `work`; with ServerOnly no other device can call it.
void run_device(const ServerContact& contact, const Offer& offer, Reach reach,
                const std::function<void(Communicator&)>& work) {
  Listener listener({"127.0.0.1", 0});
  ServerLine line(contact);
  line.open();
  Offer mine = offer;
  mine.port = reach == Reach::Direct ? listener.port() : 1;
  line.join(mine);
  const Assignment assignment = line.await_epoch({}).value();
  TcpTransport transport({.device = assignment.device,
                          .peers = assignment.peers,
                          .listener = &listener,
                          .tls = contact.tls,
                          .server = &line,
                          .epoch = assignment.epoch,
                          .program = assignment.program});
  Communicator world(transport);
  work(world);
  line.say({"ready", std::to_string(assignment.epoch)});
  line.say({"bye"});
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
    begin(3);
    for (std::thread& thread : threads) thread.join();
    EXPECT_EQ(logged("through the server"), reach == Reach::ServerOnly);
  }
}

TEST_F(ServerTest, WorksWithoutTlsOnTheLoopbackInterface) {
  start(2, /*insecure=*/true);
  const ServerContact contact{.address = server_->address()};
  std::thread other([&] { run_device(contact, {.name = "b"}, Reach::Direct, play_some); });
  std::thread own([&] {
    run_device(contact, {.name = "a", .key = server_->own_key()}, Reach::Direct, play_some);
  });
  begin(2);
  own.join();
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
  const std::string late = refusal(expired);
  EXPECT_TRUE(late.starts_with(
      "the server refuses: its certificate is not accepted: certificate has expired: it ended "))
      << late;
  EXPECT_TRUE(late.ends_with("; enrol the device again, or compare the clocks of both machines"));

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
  Caller own(*server_, "a", server_->own_key());
  auto other = std::make_unique<Caller>(*server_, "b");
  begin(2);
  EXPECT_EQ(own.epoch(), 1u);
  EXPECT_EQ(other->epoch(), 1u);
  other.reset();
  EXPECT_EQ(own.over(), "device 1 is lost (closed by the other end)");
  EXPECT_TRUE(logged("device 1 (b) is lost: closed by the other end"));
}

TEST_F(ServerTest, GivesUpADeviceThatIsSilentAndKeepsOneThatShowsLife) {
  start(3, /*insecure=*/true);
  Caller own(*server_, "a", server_->own_key());
  Caller alive(*server_, "b");
  const Pulse pulse(alive.line());
  Caller silent(*server_, "c");
  begin(3);
  EXPECT_EQ(own.epoch(), 1u);
  EXPECT_EQ(own.over(), "device 2 is lost (silent for 3.00 s)");
  EXPECT_EQ(alive.epoch(), 1u);
  EXPECT_EQ(alive.over(), "device 2 is lost (silent for 3.00 s)");
  EXPECT_EQ(silent.epoch(), 1u);
  EXPECT_NE(silent.over(), "") << "what was given up must not come back over its connection";
}

TEST_F(ServerTest, TellsWhomItWaitsFor) {
  start(2, /*insecure=*/true);
  const ServerContact contact{.address = server_->address()};
  // What happened last stands between the eleven fields of the run and whom it waits for.
  const auto waits = [&] {
    const Letter status = ask_server(contact, {"status"});
    const std::int64_t events = number_in(status.at(8)), names = number_in(status.at(9));
    const auto first = status.begin() + 11 + events;
    return std::vector<std::string>(first, first + names);
  };
  EXPECT_EQ(waits(), std::vector<std::string>{"1 device to join"});
  Caller own(*server_, "a", server_->own_key());
  Caller silent(*server_, "b");
  server_->set_silence(1h);
  begin(2);
  EXPECT_EQ(own.epoch(), 1u);
  std::vector<std::string> names;
  for (int look = 0; look < 1000 && names.empty(); ++look) {
    names = waits();
    std::this_thread::sleep_for(10ms);
  }
  ASSERT_EQ(names.size(), 1u);
  EXPECT_TRUE(names[0].starts_with("device 1 (b), silent for ")) << names[0];
}

TEST_F(ServerTest, GoesOnWithThoseWhoAreLeftAndThoseWhoCome) {
  start(2, /*insecure=*/true, Latecomers::Welcome);
  Caller own(*server_, "a", server_->own_key());
  auto other = std::make_unique<Caller>(*server_, "b");
  begin(2);
  EXPECT_EQ(own.epoch(), 1u);
  other.reset();
  own.over();
  own.line().say({"ready", "1"});
  begin(1);
  EXPECT_EQ(own.epoch(), 2u);
  EXPECT_FALSE(server_->has_newcomers());
  Caller late(*server_, "c");
  EXPECT_TRUE(logged("\"c\" at 127.0.0.1:"));
  EXPECT_TRUE(server_->has_newcomers());
  own.line().say({"ready", "2"});
  begin(2);
  EXPECT_EQ(late.epoch(), 3u);
  EXPECT_FALSE(server_->has_newcomers());
  for (Caller* device : {&own, &late}) device->line().say({"ready", "3"});
  const auto known = server_->await_ready(2, 60s, {});
  Caller later(*server_, "d");
  EXPECT_TRUE(logged("\"d\" at 127.0.0.1:"));
  server_->begin({.seats = {known[0].seat, known[1].seat}});
  EXPECT_EQ(late.epoch(), 4u);
  EXPECT_TRUE(server_->has_newcomers()) << "who joined while the plan was made is to be taken in";
  std::vector<std::string> kinds;
  for (const MemberEvent& event : server_->take_events())
    kinds.push_back(std::string(to_string(event.kind)) + " " + event.device);
  EXPECT_EQ(kinds, (std::vector<std::string>{"joined b", "lost b", "joined c", "joined d"}));
}

TEST_F(ServerTest, RefusesThoseWhoComeLateIfTheRunIsNotElastic) {
  start(1, /*insecure=*/true);
  Caller own(*server_, "a", server_->own_key());
  begin(1);
  EXPECT_EQ(own.epoch(), 1u);
  EXPECT_EQ(user_error([&] { Caller(*server_, "c").epoch(); }),
            "the server refuses: the run has its 1 devices");
}

TEST_F(ServerTest, TellsAllThatTheRunIsOver) {
  start(2, /*insecure=*/true);
  Caller own(*server_, "a", server_->own_key());
  Caller other(*server_, "b");
  begin(2);
  EXPECT_EQ(other.epoch(), 1u);
  server_->end("the disk is full");
  EXPECT_EQ(other.over(), "the run has ended: the disk is full");
  EXPECT_EQ(other.line().failure(), "the disk is full");
  EXPECT_FALSE(other.line().await_epoch({}).has_value());
}

TEST(Registry, HasOneKeyForAllThatOpenItAtOnce) {
  const TemporaryDirectory directory;
  std::mutex mutex;
  std::set<std::string> fingerprints;
  std::vector<std::thread> programs;
  for (int i = 0; i < 8; ++i) {
    programs.emplace_back([&] {
      const std::string mine = Registry(directory.path() / "server").fingerprint();
      const std::lock_guard lock(mutex);
      fingerprints.insert(mine);
    });
  }
  for (std::thread& program : programs) program.join();
  EXPECT_EQ(fingerprints.size(), 1u);
}

}  // namespace
}  // namespace cleave::comm
