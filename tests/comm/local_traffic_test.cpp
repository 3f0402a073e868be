#include <algorithm>
#include <random>

#include "comm/bytes.h"
#include "support/allocations.h"
#include <gtest/gtest.h>

#include "cleave/comm/local/local_world.h"

namespace cleave::comm {
namespace {

using testing::some_bytes;

struct Planned {
  int from, to, tag;
  std::size_t bytes;
};

std::vector<Planned> random_pattern(int devices, std::mt19937& random) {
  std::vector<Planned> pattern(60);
  for (Planned& message : pattern) {
    message.from = static_cast<int>(random() % devices);
    message.to = static_cast<int>((message.from + 1 + random() % (devices - 1)) % devices);
    message.tag = static_cast<int>(random() % 3);  // few, so that order matters
    message.bytes = random() % 4 == 0 ? 20'000 + random() % 50'000 : random() % 300;
  }
  return pattern;
}

// Each device posts its own part of the pattern in order, looks at some of it in between, and waits
// in an order of its own. What arrives must be the bytes of the message of that number.
void play(Communicator& comm, const std::vector<Planned>& pattern, std::uint32_t seed) {
  std::mt19937 random(seed + static_cast<std::uint32_t>(comm.rank()));
  std::vector<std::vector<std::byte>> buffers(pattern.size());
  std::vector<Pending> flights;
  std::vector<std::size_t> mine;
  flights.reserve(pattern.size());
  for (std::size_t i = 0; i < pattern.size(); ++i) {
    const auto& [from, to, tag, bytes] = pattern[i];
    if (from != comm.rank() && to != comm.rank()) continue;
    buffers[i] = from == comm.rank() ? some_bytes(bytes, static_cast<std::uint32_t>(i))
                                     : std::vector<std::byte>(bytes);
    flights.push_back(from == comm.rank() ? comm.send(buffers[i], to, tag)
                                          : comm.receive(buffers[i], from, tag));
    mine.push_back(i);
    if (random() % 3 == 0) flights[random() % flights.size()].done();
    if (random() % 5 == 0) comm.progress();
  }
  std::shuffle(flights.begin(), flights.end(), random);
  for (Pending& flight : flights) flight.wait();
  for (const std::size_t i : mine) {
    EXPECT_EQ(buffers[i], some_bytes(pattern[i].bytes, static_cast<std::uint32_t>(i)));
  }
}

TEST(LocalTraffic, AnyPatternArrivesWhole) {
  for (std::uint32_t seed = 0; seed < 30; ++seed) {
    std::mt19937 random(seed);
    const int devices = 2 + static_cast<int>(random() % 7);
    const auto pattern = random_pattern(devices, random);
    run_devices(devices, [&](Communicator& comm) { play(comm, pattern, seed); });
  }
}

TEST(LocalTraffic, AnAbortAtAnyMomentEndsEveryDevice) {
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

TEST(LocalTraffic, AllocatesNothingOnceWarm) {
  run_devices(2, [](Communicator& comm) {
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
