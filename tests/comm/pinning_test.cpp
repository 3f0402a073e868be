#include "cleave/comm/pinning.h"

#include <thread>

#include <gtest/gtest.h>

namespace cleave::comm {
namespace {

// Two cores of two hardware threads each, numbered as Linux does: siblings are far apart.
const std::vector<HardwareThreads> kCores = {{0, 2}, {1, 3}};
const std::vector<HardwareThreads> kLeftToTheSystem(3);

TEST(Pinning, GivesEachThreadACoreWhereThereAreEnough) {
  const Pinning pinning = plan_pinning(kCores, 2, 1);

  EXPECT_EQ(pinning.devices, kCores);
  EXPECT_EQ(pinning.report, "2 devices of 1 thread: pinned, a core for each thread");
}

TEST(Pinning, GivesADeviceOfSeveralThreadsSeveralCores) {
  EXPECT_EQ(plan_pinning(kCores, 1, 2).devices, (std::vector<HardwareThreads>{{0, 2, 1, 3}}));
}

TEST(Pinning, FallsBackToHardwareThreads) {
  const Pinning pinning = plan_pinning(kCores, 2, 2);

  EXPECT_EQ(pinning.devices, (std::vector<HardwareThreads>{{0, 2}, {1, 3}}));
  EXPECT_EQ(pinning.report, "2 devices of 2 threads: pinned, a hardware thread for each thread");
}

TEST(Pinning, LetsCrowdsTakeTurns) {
  const Pinning pinning = plan_pinning(kCores, 3, 2);

  EXPECT_EQ(pinning.devices, kLeftToTheSystem);
  EXPECT_EQ(pinning.shared, std::vector<HardwareThreads>(2));
  EXPECT_EQ(pinning.report, "3 devices of 2 threads: they take turns on 2 cores");
}

TEST(Pinning, PinsThePlacesOfDevicesOfOneThread) {
  const Pinning pinning = plan_pinning(kCores, 5, 1);

  EXPECT_EQ(pinning.shared, (std::vector<HardwareThreads>{{0}, {2}, {1}, {3}}));
}

TEST(Pinning, AThreadStaysWhereItIsPut) {
  const auto cores = allowed_cores();
  ASSERT_FALSE(cores.empty());
  const HardwareThreads last = {cores.back().back()};

  std::vector<HardwareThreads> seen;
  std::thread([&] {
    ASSERT_TRUE(pin_this_thread(last));
    seen = allowed_cores();
  }).join();

  EXPECT_EQ(seen, std::vector<HardwareThreads>{last});
  EXPECT_EQ(allowed_cores(), cores);  // of this thread, which was not pinned
}

TEST(Pinning, SaysWhenTheSystemRefuses) {
  EXPECT_FALSE(pin_this_thread({100'000}));
  EXPECT_FALSE(pin_this_thread({}));
}

}  // namespace
}  // namespace cleave::comm
