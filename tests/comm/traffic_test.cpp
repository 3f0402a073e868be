// Runs on threads and on MPI ranks: see support/devices.h.
#include <random>

#include "comm/pattern.h"
#include "support/allocations.h"
#include "support/devices.h"
#include <gtest/gtest.h>

#include "cleave/comm/communicator.h"

namespace cleave::comm {
namespace {

using testing::on_devices;

TEST(Traffic, AnyPatternArrivesWhole) {
  on_devices([](Communicator& comm) {
    if (comm.size() == 1) return;
    for (std::uint32_t seed = 0; seed < 12; ++seed) {
      std::mt19937 random(seed);
      testing::play(comm, testing::random_pattern(comm.size(), random), seed);
    }
  });
}

TEST(Traffic, AllocatesNothingOnceWarm) {
  on_devices([](Communicator& comm) {
    if (comm.size() == 1 || comm.rank() >= 2) return;
    std::vector<std::byte> out(40'000), in(40'000);
    const int peer = 1 - comm.rank();
    const auto round = [&] {
      Pending receives[4], sends[4];
      for (int tag = 0; tag < 4; ++tag)
        receives[tag] = comm.receive(std::span(in).first(99), peer, tag);
      for (int tag = 0; tag < 4; ++tag) sends[tag] = comm.send(std::span(out).first(99), peer, tag);
      for (int tag = 0; tag < 4; ++tag) receives[tag].wait();
      for (int tag = 0; tag < 4; ++tag) sends[tag].wait();
    };
    round();
    const std::int64_t before = testing::allocations();
    for (int i = 0; i < 200; ++i) round();
    EXPECT_EQ(testing::allocations(), before);
  });
}

}  // namespace
}  // namespace cleave::comm
