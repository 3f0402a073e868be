// Runs on threads and on MPI ranks: see support/devices.h.
#include <bit>
#include <cmath>
#include <random>

#include "support/devices.h"
#include <gtest/gtest.h>

#include "cleave/comm/communicator.h"
#include "cleave/comm/tree_sum.h"

namespace cleave::comm {
namespace {

using testing::on_devices;

TEST(Combine, AgreesOnEveryMember) {
  on_devices([](Communicator& comm) {
    const double n = comm.size();
    double values[] = {1.0 + comm.rank(), -2.0};
    comm.combine(values, Combine::Sum);
    EXPECT_EQ(values[0], n * (n + 1) / 2);
    EXPECT_EQ(values[1], -2 * n);
    double most[] = {static_cast<double>(comm.rank())}, least[] = {-1.0 * comm.rank()};
    comm.combine(most, Combine::Max);
    comm.combine(least, Combine::Min);
    EXPECT_EQ(most[0], n - 1);
    EXPECT_EQ(least[0], 1 - n);
  });
}

// Sums of numbers of very different size depend on the order; the oracle adds level by level.
TEST(Combine, AddsByTheTreeOfRanks) {
  on_devices([](Communicator& comm) {
    const auto number_of = [](int rank) { return std::pow(-7.3, 3 * rank) / 3; };
    std::vector<double> level;
    for (int rank = 0; rank < comm.size(); ++rank) level.push_back(number_of(rank));
    while (level.size() > 1) {
      std::vector<double> next;
      for (std::size_t i = 0; i < level.size(); i += 2)
        next.push_back(i + 1 < level.size() ? level[i] + level[i + 1] : level[i]);
      level = next;
    }
    double value[] = {number_of(comm.rank())};
    comm.combine(value, Combine::Sum);
    EXPECT_EQ(value[0], level[0]);
  });
}

TEST(Combine, SendsAFewMessagesPerRound) {
  on_devices([](Communicator& comm) {
    const std::int64_t before = comm.sent().numbers;
    double values[5] = {};
    comm.combine(values, Combine::Max);
    EXPECT_EQ(comm.sent().numbers - before,
              combine_messages(comm.rank(), comm.size()) * std::ssize(values) * 8);
  });
  for (int members = 1; members <= 64; ++members) {
    int all = 0, rounds = 0;
    for (int rank = 0; rank < members; ++rank) all += combine_messages(rank, members);
    while (1 << rounds < members) ++rounds;
    EXPECT_LE(all, members * rounds);
  }
}

}  // namespace
}  // namespace cleave::comm
