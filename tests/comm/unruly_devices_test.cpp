// Devices that come and go when it suits nobody, and say what is no name.

#include <memory>
#include <string>
#include <vector>

#include "comm/server_fixture.h"
#include <gtest/gtest.h>

namespace cleave::comm {
namespace {

using UnrulyDevices = ServerTest;

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

}  // namespace
}  // namespace cleave::comm
