// Messages that leave before word of their receive has come, as far as the link has room for them.

#include <chrono>
#include <string>

#include "comm/cutting_relay.h"
#include "comm/pattern.h"
#include "comm/tcp_devices.h"
#include "support/allocations.h"
#include <gtest/gtest.h>

#include "cleave/base/check.h"
#include "cleave/comm/tcp/early_arrivals.h"
#include "cleave/comm/tcp/outgoing_frames.h"

namespace cleave::comm {
namespace {

using namespace std::chrono_literals;
using testing::some_bytes;
using testing::TcpDevices;
using testing::Wire;

constexpr std::uint64_t kRoom = 60'000;

TcpDevices with_room(int devices, Wire wire, std::uint64_t bytes = kRoom) {
  TcpDevices all(devices, wire);
  for (int device = 0; device < devices; ++device) all.setup(device).early_bytes = bytes;
  return all;
}

// Device 1 posts the receive of the last message first, and has nothing else posted until it is
// there.
TEST(EarlyMessages, AreThereWhenTheirReceivesArePosted) {
  for (const Wire wire : {Wire::Plain, Wire::Tls}) {
    with_room(2, wire).run([](Communicator& comm) {
      comm.set_patience(5s);
      const std::size_t sizes[] = {0, 100, 50'000, 1};
      if (comm.rank() == 0) {
        for (int tag = 0; tag < 4; ++tag)
          comm.send(some_bytes(sizes[tag], tag), 1, tag).wait();  // each before the next
        return;
      }
      for (int tag = 3; tag >= 0; --tag) {
        std::vector<std::byte> bytes(sizes[tag]);
        comm.receive(bytes, 0, tag).wait();
        EXPECT_EQ(bytes, some_bytes(bytes.size(), tag));
      }
    });
  }
}

TEST(EarlyMessages, AreAnnouncedFirstWhereThereIsNoRoom) {
  with_room(2, Wire::Plain).run([](Communicator& comm) {
    std::vector<std::byte> first(40'000), second(40'000), large(kRoom);
    if (comm.rank() == 0) {
      Pending early = comm.send(first, 1, 0);
      Pending late = comm.send(second, 1, 1);
      Pending never_early = comm.send(large, 1, 2);
      early.wait();
      EXPECT_FALSE(late.wait_for(20ms));
      EXPECT_FALSE(never_early.wait_for(20ms));
      comm.send({}, 1, 3).wait();
      late.wait();
      never_early.wait();
    } else {
      comm.receive({}, 0, 3).wait();
      comm.receive(large, 0, 2).wait();
      comm.receive(second, 0, 1).wait();
      comm.receive(first, 0, 0).wait();
    }
  });
}

// The first two have room, the third not, and the fourth, which has again, must not overtake it.
TEST(EarlyMessages, OfOneTagKeepTheirOrder) {
  with_room(2, Wire::Plain).run([](Communicator& comm) {
    const std::size_t sizes[] = {30'000, 25'000, 30'000, 10, 45'000, 0};
    std::vector<std::vector<std::byte>> bytes;
    std::vector<Pending> flights;
    for (int i = 0; i < 6; ++i) {
      bytes.push_back(comm.rank() == 0 ? some_bytes(sizes[i], i)
                                       : std::vector<std::byte>(sizes[i]));
    }
    if (comm.rank() == 1) comm.receive({}, 0, 1).wait();
    for (int i = 0; i < 6; ++i)
      flights.push_back(comm.rank() == 0 ? comm.send(bytes[i], 1, 0)
                                         : comm.receive(bytes[i], 0, 0));
    if (comm.rank() == 0) comm.send({}, 1, 1).wait();
    for (Pending& flight : flights) flight.wait();
    for (int i = 0; i < 6; ++i) EXPECT_EQ(bytes[i], some_bytes(sizes[i], i)) << i;
  });
}

TEST(EarlyMessages, MoveRandomPatterns) {
  for (const std::uint64_t room : {500, 60'000, 1'000'000}) {
    with_room(4, Wire::Plain, room).run([](Communicator& comm) {
      for (std::uint32_t seed = 0; seed < 8; ++seed) {
        std::mt19937 random(seed);
        testing::play(comm, testing::random_pattern(comm.size(), random), seed);
      }
    });
  }
}

TEST(EarlyMessages, SurviveBrokenConnections) {
  for (const Wire wire : {Wire::Plain, Wire::Tls}) {
    TcpDevices devices = with_room(2, wire);
    testing::CuttingRelay relay(devices.setup(0).peers[0].address, 40'000, 12);
    devices.setup(1).peers[0].address = relay.address();
    devices.run([](Communicator& comm) {
      const int peer = 1 - comm.rank();
      for (int round = 0; round < 40; ++round) {
        const auto out = some_bytes(50'000, 2 * round + comm.rank());
        std::vector<std::byte> in(out.size());
        Pending send = comm.send(out, peer, 0);
        double sum = comm.rank();
        comm.combine({&sum, 1}, Combine::Sum);  // what was sent has come by now, or part of it
        EXPECT_EQ(sum, 1);
        comm.receive(in, peer, 0).wait();
        send.wait();
        EXPECT_EQ(in, some_bytes(in.size(), 2 * round + peer));
        std::mt19937 random(round);
        testing::play(comm, testing::random_pattern(2, random), round);
      }
    });
    EXPECT_EQ(relay.cuts_left(), 0);
  }
}

TEST(EarlyMessages, WhoseSizesDifferAreRefused) {
  TcpDevices devices = with_room(2, Wire::Plain);
  std::string said = "nothing";
  try {
    devices.run([](Communicator& comm) {
      std::vector<std::byte> bytes(comm.rank() == 0 ? 100 : 200);
      if (comm.rank() == 0) comm.send(bytes, 1, 0).wait();
      comm.barrier().wait();
      if (comm.rank() == 1) comm.receive(bytes, 0, 0).wait();
      comm.barrier().wait();
    });
  } catch (const std::exception& error) {
    said = error.what();
  }
  EXPECT_NE(said.find("receive of 200 B from device 0, tag 0 meets a message of 100 B"),
            std::string::npos)
      << said;
}

TEST(EarlyMessages, AllocateNothingOnceWarm) {
  EarlyArrivals arrivals(kRoom);
  OutgoingFrames frames(kRoom);
  const std::vector<std::byte> bytes(20'000);
  std::uint64_t sent = 0;
  const auto round = [&] {
    for (const std::size_t size : {8, 20'000, 300, 8}) {
      std::ranges::fill(*arrivals.begin({.tag = 1}, size), std::byte{1});
      arrivals.end();
      EXPECT_TRUE(frames.add_copy({}, std::span(bytes).first(size)));
      ++sent;
    }
    while (arrivals.take({.tag = 1}, [](std::span<const std::byte>) {})) continue;
    while (frames.has_next()) frames.take_next();
    frames.acknowledge_until(sent, [](TcpTransfer&) {});
  };
  for (int i = 0; i < 100; ++i) round();
  const std::int64_t before = cleave::testing::allocations();
  for (int i = 0; i < 100; ++i) round();
  EXPECT_EQ(cleave::testing::allocations(), before);
}

TEST(EarlyArrivals, TakeNoMoreThanTheirRoom) {
  EarlyArrivals arrivals(1'000);
  EarlyDepartures departures(1'000);
  const MessageKey key{7, 1};
  int held = 0;
  for (; departures.has_room_for(0); ++held) {
    departures.add(key, 0);
    ASSERT_TRUE(arrivals.begin(key, 0).has_value()) << "what one end sends the other takes";
    arrivals.end();
  }
  EXPECT_FALSE(arrivals.begin(key, 0).has_value()) << "messages without bytes come to an end too";
  EXPECT_FALSE(arrivals.begin(key, ~std::uint64_t{0}).has_value());
  for (; held > 0; --held) {
    EXPECT_EQ(departures.take(key), 0u);
    EXPECT_TRUE(arrivals.take(key, [](std::span<const std::byte>) {}));
  }
  EXPECT_TRUE(departures.has_room_for(900));
  EXPECT_TRUE(arrivals.begin(key, 900).has_value());
  arrivals.forget_begun();
  EXPECT_FALSE(arrivals.take(key, [](std::span<const std::byte>) {}));
}

}  // namespace
}  // namespace cleave::comm
