#include "cleave/comm/local/local_world.h"

#include <atomic>
#include <chrono>
#include <stdexcept>
#include <string>
#include <thread>

#include "comm/bytes.h"
#include <gtest/gtest.h>

#include "cleave/base/check.h"

namespace cleave::comm {
namespace {

using namespace std::chrono_literals;
using testing::some_bytes;

// Runs `work` on two devices and returns what it throws.
template <class Error>
std::string error_of(int devices, const std::function<void(Communicator&)>& work) {
  try {
    run_devices(devices, work);
  } catch (const Error& error) {
    return error.what();
  }
  return "nothing was thrown";
}

TEST(LocalWorld, MovesBytesFromOneDeviceToTheOther) {
  const auto sent = some_bytes(100'000, 1);
  std::vector<std::byte> received(sent.size());

  run_devices(2, [&](Communicator& comm) {
    if (comm.rank() == 0) comm.send(sent, 1, 7).wait();
    if (comm.rank() == 1) comm.receive(received, 0, 7).wait();
  });

  EXPECT_EQ(received, sent);
}

TEST(LocalWorld, ASendCompletesOnlyOnceItsReceiveIsPosted) {
  for (const std::size_t size : {0, 1, 100'000}) {
    std::atomic<bool> posted = false;
    run_devices(2, [&](Communicator& comm) {
      std::vector<std::byte> bytes(size);
      if (comm.rank() == 0) {
        Pending pending = comm.send(bytes, 1, 0);
        for (int look = 0; look < 100; ++look) EXPECT_FALSE(pending.done());
        EXPECT_FALSE(pending.wait_for(5ms));
        posted = true;
        pending.wait();
      } else {
        while (!posted) std::this_thread::yield();
        comm.receive(bytes, 0, 0).wait();
      }
    });
  }
}

TEST(LocalWorld, MatchesByPeerTagAndOrder) {
  run_devices(3, [](Communicator& comm) {
    const auto a = some_bytes(8, 1), b = some_bytes(8, 2), c = some_bytes(8, 3);
    if (comm.rank() == 0) {
      Pending first = comm.send(a, 2, 5);
      Pending second = comm.send(b, 2, 5);
      Pending other = comm.send(c, 2, 6);
      other.wait();
      second.wait();
      first.wait();
    } else if (comm.rank() == 1) {
      comm.send(c, 2, 5).wait();
    } else {
      std::vector<std::byte> x(8), y(8), z(8), w(8);
      comm.receive(z, 0, 6).wait();
      comm.receive(w, 1, 5).wait();
      comm.receive(x, 0, 5).wait();
      comm.receive(y, 0, 5).wait();
      EXPECT_EQ(x, a);
      EXPECT_EQ(y, b);
      EXPECT_EQ(z, c);
      EXPECT_EQ(w, c);
    }
  });
}

TEST(LocalWorld, GroupsHaveTagSpacesOfTheirOwn) {
  run_devices(4, [](Communicator& world) {
    const bool even = world.rank() % 2 == 0;
    const std::vector<int> members = even ? std::vector{2, 0} : std::vector{1, 3};
    const auto pair = world.group(members);
    const auto twin = world.group(members);
    ASSERT_EQ(pair->size(), 2);
    EXPECT_EQ(pair->device(pair->rank()), world.rank());
    const auto through_world = some_bytes(4, 1), through_pair = some_bytes(4, 2),
               through_twin = some_bytes(4, 3);
    const int partner = pair->device(1 - pair->rank());

    if (pair->rank() == 0) {
      Pending a = world.send(through_world, partner, 0);
      Pending b = pair->send(through_pair, 1, 0);
      Pending c = twin->send(through_twin, 1, 0);
    } else {
      std::vector<std::byte> x(4), y(4), z(4);
      Pending c = twin->receive(z, 0, 0);
      Pending b = pair->receive(y, 0, 0);
      Pending a = world.receive(x, partner, 0);
      c.wait();
      b.wait();
      a.wait();
      EXPECT_EQ(x, through_world);
      EXPECT_EQ(y, through_pair);
      EXPECT_EQ(z, through_twin);
    }
  });
}

TEST(LocalWorld, CountsWhatEachDeviceSent) {
  run_devices(3, [](Communicator& comm) {
    std::vector<std::byte> bytes(10 * (comm.rank() + 1)), in(10 * ((comm.rank() + 2) % 3 + 1));
    Pending send = comm.send(bytes, (comm.rank() + 1) % 3, 0);
    Pending receive = comm.receive(in, (comm.rank() + 2) % 3, 0);
    send.wait();
    receive.wait();
    EXPECT_EQ(comm.sent(), (Sent{.message = 10 * (comm.rank() + 1)}));
  });
}

TEST(LocalWorld, AWaitThatTimesOutTellsWhomItWaitsFor) {
  run_devices(2, [](Communicator& comm) {
    std::vector<std::byte> bytes(12);
    if (comm.rank() == 0) {
      Pending pending = comm.receive(bytes, 1, 3);
      EXPECT_FALSE(pending.wait_for(1ms));
      EXPECT_EQ(pending.describe(), "receive of 12 B from device 1, tag 3");
      comm.send(bytes, 1, 4).wait();
      EXPECT_TRUE(pending.wait_for(1h));
      EXPECT_EQ(pending.describe(), "nothing");
    } else {
      comm.receive(bytes, 0, 4).wait();
      comm.send(bytes, 0, 3).wait();
    }
  });
}

TEST(LocalWorld, ADeviceThatThrowsWakesThoseThatWaitForIt) {
  std::string told[3];
  const auto message = error_of<std::runtime_error>(3, [&](Communicator& comm) {
    if (comm.rank() == 2) throw std::runtime_error("disk on fire");
    std::vector<std::byte> bytes(4);
    try {
      comm.receive(bytes, 1 - comm.rank(), 9).wait();  // each waits for the other, for ever
    } catch (const DeviceLost& lost) {
      told[comm.rank()] = lost.what();
      throw;
    }
  });

  EXPECT_EQ(message, "disk on fire");
  EXPECT_EQ(told[0],
            "device 2 stopped (disk on fire) while device 0 was at its receive of 4 B from device "
            "1, tag 9");
  EXPECT_FALSE(told[1].empty());
}

TEST(LocalWorld, ADeviceThatLeftIsLostToThoseThatStillWait) {
  const auto message = error_of<DeviceLost>(2, [](Communicator& comm) {
    std::vector<std::byte> bytes(4);
    if (comm.rank() == 0) comm.receive(bytes, 1, 1).wait();
  });

  EXPECT_EQ(message,
            "device 1 has finished; device 0 still waits for its receive of 4 B from device 1, tag "
            "1");
}

TEST(LocalWorld, WithdrawsWhatIsInFlightWhenAnExceptionUnwinds) {
  const auto message = error_of<std::runtime_error>(2, [](Communicator& comm) {
    std::vector<std::byte> bytes(50'000);  // freed while device 1 still looks for a partner
    Pending pending = comm.receive(bytes, 1 - comm.rank(), 0);
    if (comm.rank() == 0) throw std::runtime_error("stop");
    pending.wait();
  });

  EXPECT_EQ(message, "stop");
}

TEST(LocalWorld, RefusesMessagesWhoseSizesDiffer) {
  const auto message = error_of<std::exception>(2, [](Communicator& comm) {
    std::vector<std::byte> bytes(comm.rank() == 0 ? 8 : 9);
    (comm.rank() == 0 ? comm.send(bytes, 1, 0) : comm.receive(bytes, 0, 0)).wait();
  });

  EXPECT_NE(message.find("8 B"), std::string::npos) << message;
  EXPECT_NE(message.find("9 B"), std::string::npos) << message;
}

TEST(LocalWorld, RefusesWhatCannotBeMeant) {
  run_devices(1, [](Communicator& comm) {
    std::vector<std::byte> bytes(1);
    EXPECT_THROW((void)comm.send(bytes, 0, 0), InternalError);
    EXPECT_THROW((void)comm.send(bytes, 1, 0), InternalError);
    EXPECT_THROW((void)comm.receive(bytes, -1, 0), InternalError);
    EXPECT_THROW((void)comm.group(std::vector{0, 0}), InternalError);
  });
  EXPECT_THROW(LocalWorld(0), UserError);
}

}  // namespace
}  // namespace cleave::comm
