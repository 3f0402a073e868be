// Runs on threads and on MPI ranks: see support/devices.h.
#include <atomic>
#include <bit>
#include <cmath>
#include <memory>
#include <random>

#include "comm/adders.h"
#include "comm/bytes.h"
#include "support/allocations.h"
#include "support/devices.h"
#include <gtest/gtest.h>

#include "cleave/base/check.h"
#include "cleave/comm/communicator.h"
#include "cleave/comm/tree_sum.h"

namespace cleave::comm {
namespace {

using testing::on_devices;
using testing::some_bytes;
using Bytes = std::vector<std::byte>;

// `count` numbers whose sum depends on the order, in the format of `adder`.
Bytes random_numbers(const Adder& adder, std::size_t count, std::uint32_t seed) {
  std::mt19937 random(seed);
  Bytes bytes(count * adder.element_bytes());
  for (std::size_t i = 0; i < count; ++i) {
    const float scale = static_cast<float>(1u << (random() % 12));
    const float value = scale * (static_cast<float>(random() >> 8) * 0x1p-23f - 1.0f);
    const std::uint32_t bits = std::bit_cast<std::uint32_t>(value);
    const std::size_t size = adder.element_bytes();
    std::memcpy(&bytes[i * size], reinterpret_cast<const std::byte*>(&bits) + 4 - size, size);
  }
  return bytes;
}

// The tree, written once more and in the other direction: from the root.
Bytes sum_of(std::span<const Bytes> parts, const Adder& adder) {
  if (parts.size() == 1) return parts.front();
  const std::size_t left = std::bit_ceil(parts.size()) / 2;
  Bytes a = sum_of(parts.first(left), adder);
  const Bytes b = sum_of(parts.subspan(left), adder);
  adder.add(a, b, a);
  return a;
}

std::vector<Bytes> contributions(const Adder& adder, std::size_t count, int members) {
  std::vector<Bytes> all;
  for (int i = 0; i < members; ++i) all.push_back(random_numbers(adder, count, 100 + i));
  return all;
}

const std::unique_ptr<Adder> kAdders[] = {std::make_unique<testing::F32Adder>(),
                                          std::make_unique<testing::Bf16Adder>()};

TEST(Collectives, ABarrierHoldsEveryoneUntilTheLastArrives) {
  on_devices([](Communicator& comm) {
    if (comm.size() == 1) return comm.barrier().wait();
    Pending barrier;
    for (int late = 0; late < comm.size(); ++late) {
      if (comm.rank() != late) {
        barrier = comm.barrier();
        EXPECT_FALSE(barrier.done());
        comm.send({}, late, 1).wait();  // the late one enters only after all have said so
      } else {
        for (int peer = 0; peer < comm.size(); ++peer) {
          if (peer != late) comm.receive({}, peer, 1).wait();
        }
        barrier = comm.barrier();
      }
      barrier.wait();
    }
  });
}

TEST(Collectives, ABroadcastReachesEveryoneFromAnyRoot) {
  on_devices([](Communicator& comm) {
    for (int root = 0; root < comm.size(); ++root) {
      Bytes bytes = some_bytes(5000, comm.rank());
      comm.broadcast(bytes, root).wait();
      EXPECT_EQ(bytes, some_bytes(5000, root));
    }
  });
}

TEST(Collectives, AllGatherPutsEachSliceInItsPlace) {
  on_devices([](Communicator& comm) {
    std::vector<std::size_t> borders = {0};
    Bytes expected, whole;
    for (int member = 0; member < comm.size(); ++member) {
      const std::size_t size = member == 1 ? 0 : 1000 + 33 * member;
      const Bytes slice = some_bytes(size, member);
      const Bytes mine = member == comm.rank() ? slice : Bytes(size);
      expected.insert(expected.end(), slice.begin(), slice.end());
      whole.insert(whole.end(), mine.begin(), mine.end());
      borders.push_back(whole.size());
    }
    const Sent before = comm.sent();

    comm.all_gather(whole, borders).wait();

    EXPECT_EQ(whole, expected);
    const auto own = static_cast<std::int64_t>(borders[comm.rank() + 1] - borders[comm.rank()]);
    EXPECT_EQ(comm.sent().gather - before.gather, own * (comm.size() - 1));
    EXPECT_EQ(comm.sent().total() - before.total(), own * (comm.size() - 1));
  });
}

TEST(Collectives, AllReduceAddsByTheTreeWhateverTheWorkspace) {
  on_devices([](Communicator& comm) {
    for (const auto& adder : kAdders) {
      for (const std::size_t count : {0, 1, 31, 1000, 20'000}) {
        const auto parts = contributions(*adder, count, comm.size());
        const std::size_t bytes = parts[0].size();
        for (const std::size_t workspace_bytes :
             {single_round_workspace(bytes, comm.size()), kReduceGrain * (comm.size() - 1) * 25}) {
          Bytes values = parts[comm.rank()], workspace(workspace_bytes);
          comm.all_reduce({values, workspace, *adder}).wait();
          EXPECT_EQ(values, sum_of(parts, *adder)) << count << " numbers";
        }
      }
    }
  });
}

// A grid of 8 shards, folded onto however many devices there are: each adds up its own block first.
TEST(Collectives, FoldingTheLogicalGridDoesNotChangeABit) {
  constexpr int kShards = 8;
  on_devices([](Communicator& comm) {
    if (kShards % comm.size() != 0) return;
    for (const auto& adder : kAdders) {
      const auto shards = contributions(*adder, 3000, kShards);
      const int block = kShards / comm.size();
      std::vector<Bytes> own(shards.begin() + comm.rank() * block,
                             shards.begin() + (comm.rank() + 1) * block);
      std::vector<std::byte*> parts;
      for (Bytes& shard : own) parts.push_back(shard.data());
      tree_sum(parts, own[0].size(), *adder, own[0].data());
      Bytes workspace(single_round_workspace(own[0].size(), comm.size()));

      comm.all_reduce({own[0], workspace, *adder}).wait();

      EXPECT_EQ(own[0], sum_of(shards, *adder));
    }
  });
}

TEST(Collectives, ReduceScatterSumsOwnSlicesAndLeavesTheRest) {
  on_devices([](Communicator& comm) {
    const testing::F32Adder adder;
    const auto parts = contributions(adder, 900, comm.size());
    std::vector<std::size_t> borders(comm.size() + 1, parts[0].size());  // the last get nothing
    borders[0] = 0;
    if (comm.size() > 2) borders[1] = 128;
    Bytes values = parts[comm.rank()], workspace(512 * comm.size());
    const Sent before = comm.sent();

    comm.reduce_scatter({values, workspace, adder}, borders).wait();

    Bytes expected = parts[comm.rank()];
    const Bytes sum = sum_of(parts, adder);
    const std::size_t begin = borders[comm.rank()], end = borders[comm.rank() + 1];
    std::copy(sum.begin() + begin, sum.begin() + end, expected.begin() + begin);
    EXPECT_EQ(values, expected);
    EXPECT_EQ(comm.sent().reduce - before.reduce, comm.size() == 1 ? 0 : 3600 - (end - begin));
  });
}

TEST(Collectives, AllReduceSendsNoMoreThanItMust) {
  on_devices([](Communicator& comm) {
    const testing::F32Adder adder;
    const std::size_t bytes = kReduceGrain * 30 * comm.size();
    Bytes values(bytes), workspace(single_round_workspace(bytes, comm.size()));
    const Sent before = comm.sent();

    comm.all_reduce({values, workspace, adder}).wait();

    const auto n = static_cast<std::int64_t>(bytes);
    EXPECT_EQ(comm.sent().reduce - before.reduce, 2 * n * (comm.size() - 1) / comm.size());
    EXPECT_EQ(comm.sent().total() - before.total(), comm.sent().reduce - before.reduce);
  });
}

TEST(Collectives, OverlapEachOtherAndMessages) {
  on_devices([](Communicator& comm) {
    const testing::F32Adder adder;
    constexpr int kCount = 5;
    std::vector<Bytes> values, workspaces, expected;
    std::vector<Pending> flights;
    for (int i = 0; i < kCount; ++i) {
      const auto parts = contributions(adder, 500 + 100 * i, comm.size());
      values.push_back(parts[comm.rank()]);
      workspaces.emplace_back(kReduceGrain * comm.size() * (i + 1));
      expected.push_back(sum_of(parts, adder));
    }
    Bytes in(1000);
    const int next = (comm.rank() + 1) % comm.size();
    const int previous = (comm.rank() + comm.size() - 1) % comm.size();
    for (int i = 0; i < kCount; ++i) {
      flights.push_back(comm.all_reduce({values[i], workspaces[i], adder}));
      comm.progress();
    }
    if (comm.size() > 1) {
      Pending receive = comm.receive(in, previous, 0);
      comm.send(some_bytes(1000, comm.rank()), next, 0).wait();
      receive.wait();
      EXPECT_EQ(in, some_bytes(1000, previous));
    }
    // Each waits in an order of its own.
    for (int i = 0; i < kCount; ++i) flights[(i + comm.rank()) % kCount].wait();
    EXPECT_EQ(values, expected);
  });
}

TEST(Collectives, ProgressAloneCompletesThem) {
  on_devices([](Communicator& comm) {
    const testing::F32Adder adder;
    const auto parts = contributions(adder, 2000, comm.size());
    Bytes values = parts[comm.rank()], workspace(kReduceGrain * comm.size());
    Pending pending = comm.all_reduce({values, workspace, adder});

    while (pending.in_flight() && !pending.done()) comm.progress();

    EXPECT_EQ(values, sum_of(parts, adder));
    comm.barrier().wait();
  });
}

TEST(Collectives, WorkInsideAGroup) {
  on_devices([](Communicator& world) {
    if (world.size() < 4) return;
    std::vector<int> members;
    for (int i = world.rank() % 2; i < world.size(); i += 2) members.push_back(i);
    const auto group = world.group(members);
    double sum[] = {static_cast<double>(world.rank())}, expected = 0;
    for (const int member : members) expected += member;

    group->combine(sum, Combine::Sum);

    EXPECT_EQ(sum[0], expected);
  });
}

TEST(Collectives, AllocateNothingOnceWarm) {
  on_devices([](Communicator& comm) {
    const testing::F32Adder adder;
    Bytes values(4000), workspace(single_round_workspace(4000, comm.size()));
    const auto borders = even_borders(4000, comm.size());
    const auto round = [&] {
      Pending reduce = comm.all_reduce({values, workspace, adder});
      reduce.wait();
      comm.all_gather(values, borders).wait();
      comm.barrier().wait();
      double number[] = {1};
      comm.combine(number, Combine::Max);
    };
    for (int i = 0; i < 5; ++i) round();
    const std::int64_t before = testing::allocations();
    for (int i = 0; i < 50; ++i) round();
    EXPECT_EQ(testing::allocations(), before);
  });
}

TEST(Collectives, RefuseWhatCannotBeMeant) {
  on_devices([](Communicator& comm) {
    if (comm.size() == 1) return;
    const testing::F32Adder adder;
    Bytes values(4000), workspace(kReduceGrain * (comm.size() - 1) - 1);
    EXPECT_THROW((void)comm.all_reduce({values, workspace, adder}), InternalError);
    EXPECT_THROW((void)comm.all_gather(values, std::vector<std::size_t>{0, 4000, 100}),
                 InternalError);
    EXPECT_THROW((void)comm.broadcast(values, comm.size()), InternalError);
  });
}

}  // namespace
}  // namespace cleave::comm
