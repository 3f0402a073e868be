// Runs on threads and on MPI ranks: see support/devices.h.
#include <random>

#include "comm/adders.h"
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
      // Each has a place of its own: either end may copy, and two messages may arrive at once.
      for (int tag = 0; tag < 4; ++tag)
        receives[tag] = comm.receive(std::span(in).subspan(100 * tag, 99), peer, tag);
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

TEST(Traffic, CollectivesAreLoggedWithTheBytesTheySend) {
  on_devices([](Communicator& comm) {
    if (comm.size() == 1) return;
    const testing::F32Adder adder;
    std::vector<std::byte> values(4096), workspace(4096 * comm.size()), news(512);
    ExchangeLog& log = comm.log();
    log.reserve(3);
    log.clear();
    const Sent before = comm.sent();

    comm.barrier().wait();
    Pending sum = comm.all_reduce({.values = values, .workspace = workspace, .adder = adder});
    comm.broadcast(news, 0).wait();
    sum.wait();
    comm.all_gather(values, even_borders(values.size(), comm.size())).wait();
    comm.broadcast(news, 0).wait();  // finds no room

    const Sent sent = comm.sent() - before;
    ASSERT_EQ(log.exchanges().size(), 3u);
    const LoggedCollective& first = log.exchanges()[0];
    const LoggedCollective& second = log.exchanges()[1];
    EXPECT_EQ(first.kind, CollectiveKind::AllReduce);
    EXPECT_EQ(second.kind, CollectiveKind::Broadcast);
    EXPECT_EQ(first.bytes, sent.reduce);
    EXPECT_EQ(2 * second.bytes + log.exchanges()[2].bytes, sent.gather);
    EXPECT_LE(first.begin, second.begin);
    EXPECT_LE(first.spent_before, second.spent_before);
    for (const LoggedCollective& exchange : log.exchanges()) {
      EXPECT_LE(exchange.begin, exchange.end);
      EXPECT_LE(exchange.spent, exchange.end - exchange.begin);
    }
  });
}

}  // namespace
}  // namespace cleave::comm
