#include "cleave/engine/measure/devices_at_once.h"

#include <bit>

#include <gtest/gtest.h>

#include "cleave/comm/launcher.h"

namespace cleave::engine {
namespace {

using Places = std::vector<ProcessPlace>;

TEST(DevicesAtOnce, AreThoseThatTheCoresOfEachHostCanHold) {
  const ProcessPlace here{.host = 1, .threads = {0b11}};
  const ProcessPlace there{.host = 2, .threads = {0b11}};
  EXPECT_EQ(devices_at_once(Places{here}, 4, 1), 2) << "threads of one process";
  EXPECT_EQ(devices_at_once(Places(4, here), 4, 1), 2) << "ranks that share its cores";
  EXPECT_EQ(devices_at_once(Places{here, here, there, there}, 4, 1), 4);
  EXPECT_EQ(devices_at_once(Places{here, here, here, there}, 4, 1), 3) << "one host is crowded";
  EXPECT_EQ(devices_at_once(Places{here, there}, 2, 2), 2);
}

TEST(DevicesAtOnce, CountCoresOfRanksThatAreBound) {
  const ProcessPlace first{.host = 1, .threads = {0b01}};
  const ProcessPlace second{.host = 1, .threads = {0b10}};
  EXPECT_EQ(devices_at_once(Places{first, second}, 2, 1), 2);
  EXPECT_EQ(devices_at_once(Places{first, second, first, second}, 4, 1), 2);
  EXPECT_EQ(devices_at_once(Places{first, first}, 2, 1), 1);
  EXPECT_EQ(devices_at_once(Places{first}, 1, 4), 1) << "fewer cores than threads";
}

TEST(DevicesAtOnce, AreAgreedOnByAllProcesses) {
  const ProcessPlace mine = place_of_this_process();
  int allowed = 0;
  for (const std::uint32_t word : mine.threads) allowed += std::popcount(word);
  comm::LocalLauncher launcher;
  launcher.set_pin(comm::Pin::No);
  std::vector<double> found(5);
  launcher.run(5, 1,
               [&](comm::Communicator& world) {
                 found[static_cast<std::size_t>(world.rank())] = devices_at_once(world, 5, 1);
               },
               {});
  EXPECT_EQ(found, std::vector<double>(5, std::min(allowed, 5)));
}

}  // namespace
}  // namespace cleave::engine
