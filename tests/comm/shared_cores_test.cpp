#include "cleave/comm/local/shared_cores.h"

#include <algorithm>
#include <atomic>
#include <random>
#include <thread>
#include <vector>

#include "comm/pattern.h"
#include <gtest/gtest.h>

#include "cleave/base/check.h"
#include "cleave/comm/local/local_world.h"

namespace cleave::comm {
namespace {

using testing::play;
using testing::random_pattern;

const std::vector<HardwareThreads> kTwoPlaces(2);

TEST(SharedCores, NeverRunMoreDevicesThanThereArePlaces) {
  std::atomic<int> running = 0;
  std::atomic<int> most = 0;
  LocalWorld world(5, kTwoPlaces);

  run_devices(world, [&](Communicator& comm) {
    for (int i = 0; i < 50; ++i) {
      most = std::max(most.load(), ++running);
      std::this_thread::sleep_for(std::chrono::microseconds(100));
      --running;
      comm.barrier().wait();
    }
  });

  EXPECT_LE(most, 2);
}

TEST(SharedCores, CarryAnyPatternOfMessages) {
  for (std::uint32_t seed = 0; seed < 12; ++seed) {
    std::mt19937 random(seed);
    const auto pattern = random_pattern(5, random);
    LocalWorld world(5, std::vector<HardwareThreads>(1 + seed % 4));
    run_devices(world, [&](Communicator& comm) { play(comm, pattern, seed); });
  }
}

TEST(SharedCores, AreLeftToThoseOneGivesWayTo) {
  LocalWorld world(2, std::vector<HardwareThreads>(1));
  std::atomic<bool> computed = false;

  run_devices(world, [&](Communicator& comm) {
    if (comm.rank() == 1) computed = true;
    while (!computed) EXPECT_TRUE(comm.give_way());
  });
}

TEST(SharedCores, AreNotNeededToGiveUp) {
  LocalWorld world(2, std::vector<HardwareThreads>(1));
  std::atomic<bool> gave_up = false;
  const auto work = [&](Communicator& comm) {
    std::vector<std::byte> bytes(4);
    if (comm.rank() == 1) {
      comm.receive(bytes, 0, 1).wait();
      while (!gave_up) std::this_thread::yield();  // on the only place
      return;
    }
    comm.set_patience(std::chrono::milliseconds(20));
    try {
      comm.send(bytes, 1, 1).wait();
      comm.receive(bytes, 1, 1).wait();
    } catch (const DeviceLost&) {
      gave_up = true;
      throw;
    }
  };

  EXPECT_THROW(run_devices(world, work), DeviceLost);
}

TEST(SharedCores, MoveThreadsToTheirPlaces) {
  const HardwareThreads last = {allowed_cores().back().back()};
  LocalWorld world(3, {last});
  std::vector<std::vector<HardwareThreads>> seen(3);

  run_devices(world, [&](Communicator& comm) { seen[comm.rank()] = allowed_cores(); });

  for (const auto& cores : seen) EXPECT_EQ(cores, std::vector<HardwareThreads>{last});
}

}  // namespace
}  // namespace cleave::comm
