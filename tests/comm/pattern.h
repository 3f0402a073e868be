#pragma once

#include <algorithm>
#include <random>
#include <vector>

#include "comm/bytes.h"
#include <gtest/gtest.h>

#include "cleave/comm/communicator.h"

namespace cleave::testing {

struct Planned {
  int from, to, tag;
  std::size_t bytes;
};

/// Messages between random devices, of random sizes.
inline std::vector<Planned> random_pattern(int devices, std::mt19937& random) {
  std::vector<Planned> pattern(60);
  for (Planned& message : pattern) {
    message.from = static_cast<int>(random() % devices);
    message.to = static_cast<int>((message.from + 1 + random() % (devices - 1)) % devices);
    message.tag = static_cast<int>(random() % 3);  // few, so that order matters
    message.bytes = random() % 4 == 0 ? 20'000 + random() % 50'000 : random() % 300;
  }
  return pattern;
}

/// Each device posts its own part of the pattern in order, looks at some of it in between, and
/// waits in an order of its own. What arrives must be the bytes of the message of that number.
inline void play(comm::Communicator& comm, const std::vector<Planned>& pattern,
                 std::uint32_t seed) {
  std::mt19937 random(seed + static_cast<std::uint32_t>(comm.rank()));
  std::vector<std::vector<std::byte>> buffers(pattern.size());
  std::vector<comm::Pending> flights;
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
  for (comm::Pending& flight : flights) flight.wait();
  for (const std::size_t i : mine) {
    EXPECT_EQ(buffers[i], some_bytes(pattern[i].bytes, static_cast<std::uint32_t>(i)));
  }
}

}  // namespace cleave::testing
