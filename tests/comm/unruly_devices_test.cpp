// Devices that come and go when it suits nobody, and say what is no name.

#include <memory>
#include <string>
#include <vector>

#include "comm/server_fixture.h"
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <unistd.h>

namespace cleave::comm {
namespace {

using UnrulyDevices = ServerTest;

TEST_F(UnrulyDevices, KeepTheirInvitationWhenTheyAskForWhatCannotBe) {
  start(1);
  const Invitation invitation = parse_invitation(registry_.invite(10min));
  const Tls stranger({});
  const auto enrol_as = [&](const std::string& key, const std::string& name) {
    return ask_server(contact(stranger), {"enrol", invitation.token, key, name}).front();
  };
  const std::string key = public_key_of(make_key());

  EXPECT_EQ(testing::user_error([&] { enrol_as(key, std::string(65, 'x')); }),
            "the server refuses: the name of a device has 1 to 64 bytes, not 65");
  EXPECT_EQ(testing::user_error([&] { enrol_as(key, "caf\xe9"); }),
            "the server refuses: the name of a device is a line of UTF-8, not \"caf\\xe9\"; choose "
            "another with --name");
  EXPECT_EQ(testing::user_error([&] { enrol_as("no key", "phone"); }),
            "the server refuses: a certificate was asked for something that is not an Ed25519 key");
  EXPECT_EQ(enrol_as(key, "phone"), "certificate");
}

TEST_F(UnrulyDevices, WriteNothingToTheServersTerminalButText) {
  start(2, /*insecure=*/true);
  const ServerContact contact{.address = server_->address()};
  EXPECT_EQ(testing::user_error([&] { Caller(*server_, "x\n\x1b[2J").epoch(); }),
            "the server refuses: the name of a device is a line of UTF-8, not \"x\\x0a\\x1b[2J\"; "
            "choose another with --name");
  Caller own(*server_, "a", server_->own_key()), other(*server_, "b");
  begin(2);
  EXPECT_EQ(other.epoch(), 1u);
  other.line().say({"failed", "\x1b]0;title\x07 disk\nfull"});

  EXPECT_EQ(own.epoch(), 1u);
  EXPECT_EQ(own.over(), "device 1 is lost (\\x1b]0;title\\x07 disk\\x0afull)");
  EXPECT_TRUE(logged("device 1 (b) is lost: \\x1b]0;title\\x07 disk\\x0afull"));
}

// Of those who are gone the server remembers the last 32.
TEST_F(UnrulyDevices, ComeAndGoWhileTheServerPlansWithOneThatHasLeft) {
  start(2, /*insecure=*/true, Latecomers::Welcome);
  Caller own(*server_, "a", server_->own_key());
  auto chosen = std::make_unique<Caller>(*server_, "b");
  std::vector<std::int64_t> seats;
  for (const Candidate& candidate : server_->await_ready(2, 60s, {}))
    seats.push_back(candidate.seat);
  chosen.reset();
  EXPECT_TRUE(logged("\"b\" has left"));
  for (int i = 0; i < 40; ++i) {
    const std::string name = "c" + std::to_string(i);
    Caller(*server_, name).line().say({"bye"});
    EXPECT_TRUE(logged("\"" + name + "\" has left")) << i;
  }

  server_->begin({.seats = seats});

  EXPECT_EQ(own.epoch(), 1u);
  EXPECT_EQ(own.over(), "device 1 is lost (it left)");
}

TEST_F(UnrulyDevices, WaitAtTheDoorWhileTheServerMayOpenNoMoreFiles) {
  start(1, /*insecure=*/true);
  const int next = dup(STDERR_FILENO);
  close(next);
  rlimit usual{};
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &usual), 0);
  rlimit one_more = usual;
  one_more.rlim_cur = static_cast<rlim_t>(next) + 1;
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &one_more), 0);
  const Stream caller = Stream::connect(server_->address(), nullptr);
  const bool told = logged("cannot let anybody in: Too many open files; see ulimit -n");
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &usual), 0);

  EXPECT_TRUE(told);
  EXPECT_EQ(ask_server({.address = server_->address()}, {"status"}).at(1), "waiting");
}

}  // namespace
}  // namespace cleave::comm
