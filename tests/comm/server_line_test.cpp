// What a device hears when another program listens at the address that it was given.

#include "cleave/comm/tcp/server_line.h"

#include <chrono>
#include <string>

#include <gtest/gtest.h>

#include "cleave/comm/tcp/listener.h"

namespace cleave::comm {
namespace {

using namespace std::chrono_literals;

TEST(ServerLine, GivesUpOneWhoTakesTheConnectionAndSaysNothing) {
  const Listener somebody({"127.0.0.1", 0});
  ServerLine line({.address = {"127.0.0.1", somebody.port()}}, /*first_word_within=*/300ms);
  line.open();
  line.join({.name = "device", .port = 1});

  std::string said = "nothing";
  bool may_come = true;
  try {
    line.await_epoch({}, [give_up = Clock::now() + 10s] { return Clock::now() > give_up; });
  } catch (const ServerGone& error) {
    said = error.what();
    may_come = error.may_come();
  }

  EXPECT_EQ(said, "the server at 127.0.0.1:" + std::to_string(somebody.port()) +
                      ": it does not answer; see that cleave serve listens there");
  EXPECT_FALSE(may_come) << "cleave join would call it for ten minutes";
}

}  // namespace
}  // namespace cleave::comm
