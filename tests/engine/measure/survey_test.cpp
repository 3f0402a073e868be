#include "cleave/engine/measure/survey.h"

#include <mutex>

#include <gtest/gtest.h>

#include "cleave/comm/local/local_world.h"

namespace cleave::engine {
namespace {

TEST(Survey, TellsEveryDeviceTheSameOfAllLinks) {
  for (const int devices : {1, 2, 3, 4, 7}) {
    std::mutex mutex;
    std::vector<Survey> all;
    comm::run_devices(devices, [&](comm::Communicator& world) {
      Survey mine = survey(world, 10.0 + world.rank());
      const std::lock_guard lock(mutex);
      all.push_back(std::move(mine));
    });
    for (const Survey& each : all) {
      ASSERT_EQ(each.links.size(), static_cast<std::size_t>(devices * devices));
      for (int a = 0; a < devices; ++a) {
        EXPECT_EQ(each.rate[a], 10.0 + a);
        EXPECT_EQ(each.places[a].host, place_of_this_process().host);
        EXPECT_EQ(each.places[a].threads, place_of_this_process().threads);
        for (int b = 0; b < devices; ++b) {
          EXPECT_EQ(each.link(a, b).latency > 0, a != b);
          EXPECT_EQ(each.link(a, b).latency, each.link(b, a).latency);
          EXPECT_EQ(each.link(a, b).latency, all[0].link(a, b).latency);
          EXPECT_EQ(each.link(a, b).per_byte, all[0].link(a, b).per_byte);
        }
      }
    }
  }
}

}  // namespace
}  // namespace cleave::engine
