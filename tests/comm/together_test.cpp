// Runs on threads and on MPI ranks: see support/devices.h.
#include "cleave/comm/together.h"

#include "support/devices.h"
#include <gtest/gtest.h>

#include "cleave/base/check.h"

namespace cleave::comm {
namespace {

using testing::on_devices;

/// What this device learns when `act` fails wherever `fails` says so.
std::string outcome(Communicator& world, bool fails) {
  try {
    together(world, [&] { require(!fails, "bad key on ", world.rank()); });
  } catch (const UserError& error) {
    return error.what();
  } catch (const PeerFailed& error) {
    return error.what();
  }
  return "fine";
}

TEST(Together, GoesOnIfAllAreWell) {
  on_devices([](Communicator& world) { EXPECT_EQ(outcome(world, false), "fine"); });
}

TEST(Together, LetsTheFirstThatFailsSpeak) {
  on_devices([](Communicator& world) {
    const int last = world.size() - 1;
    const std::string alone = outcome(world, world.rank() == last);
    EXPECT_EQ(alone, world.rank() == last ? "bad key on " + std::to_string(last)
                                          : "device " + std::to_string(last) + " failed");
    EXPECT_EQ(outcome(world, true), world.rank() == 0 ? "bad key on 0" : "device 0 failed");
  });
}

TEST(Together, TellsTextsOfAnyLength) {
  on_devices([](Communicator& world) {
    for (const std::size_t length : {0, 1, 5000}) {
      std::string text(world.rank() == 0 ? length : 3, world.rank() == 0 ? 'a' : 'b');
      broadcast(world, text);
      EXPECT_EQ(text, std::string(length, 'a'));
    }
  });
}

}  // namespace
}  // namespace cleave::comm
