#include "cleave/comm/local/local_world.h"

#include <stdexcept>
#include <string>
#include <vector>

#include "comm/pattern.h"
#include <gtest/gtest.h>

#include "cleave/base/check.h"

namespace cleave::comm {
namespace {

using testing::play;
using testing::random_pattern;
using testing::some_bytes;

// Runs `work` and returns what it throws.
template <class Error>
std::string error_of(int devices, const std::function<void(Communicator&)>& work) {
  try {
    run_devices(devices, work);
  } catch (const Error& error) {
    return error.what();
  }
  return "nothing was thrown";
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

TEST(LocalWorld, AnAbortAtAnyMomentEndsEveryDevice) {
  for (std::uint32_t seed = 0; seed < 40; ++seed) {
    std::mt19937 random(seed);
    const auto pattern = random_pattern(5, random);
    LocalWorld world(5);
    try {
      run_devices(world, [&](Communicator& comm) {
        std::vector<std::vector<std::byte>> buffers(seed);
        std::vector<Pending> flights;  // withdrawn before their buffers go
        for (std::uint32_t i = 0; i < seed && comm.rank() == 3; ++i) {
          buffers[i] = some_bytes(pattern[i].bytes, i);
          if (pattern[i].from != 3) continue;
          flights.push_back(comm.send(buffers[i], pattern[i].to, pattern[i].tag));
        }
        if (comm.rank() == 3) throw std::runtime_error("broken");
        play(comm, pattern, seed);
      });
      FAIL() << "device 3 throws";
    } catch (const std::runtime_error& error) {
      EXPECT_STREQ(error.what(), "broken");
    }
  }
}

// The last helper of a copy completes it without telling itself; a wait must not sleep through
// that.
TEST(LocalWorld, NobodySleepsThroughTheEndOfACollective) {
  for (int run = 0; run < 100; ++run) {
    run_devices(4, [](Communicator& comm) {
      std::vector<std::byte> whole(4000);
      const auto borders = even_borders(whole.size(), comm.size());
      for (int i = 0; i < 50; ++i) {
        comm.all_gather(whole, borders).wait();
        comm.barrier().wait();
      }
    });
  }
}

TEST(LocalWorld, NeedsADevice) {
  EXPECT_THROW(LocalWorld(0), UserError);
}

}  // namespace
}  // namespace cleave::comm
