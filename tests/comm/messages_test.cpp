// Runs on threads and on MPI ranks: see support/devices.h.
#include <chrono>
#include <numeric>
#include <span>
#include <string>

#include "comm/bytes.h"
#include "support/devices.h"
#include <gtest/gtest.h>

#include "cleave/base/check.h"
#include "cleave/comm/communicator.h"

namespace cleave::comm {
namespace {

using namespace std::chrono_literals;
using testing::on_devices;
using testing::some_bytes;

TEST(Messages, TravelRoundTheRing) {
  on_devices([](Communicator& comm) {
    if (comm.size() == 1) return;
    const int next = (comm.rank() + 1) % comm.size();
    const int previous = (comm.rank() + comm.size() - 1) % comm.size();
    for (const std::size_t size : {0, 1, 1000, 300'000}) {
      const auto out = some_bytes(size, comm.rank());
      std::vector<std::byte> in(size);
      Pending receive = comm.receive(in, previous, 7);
      Pending send = comm.send(out, next, 7);
      receive.wait();
      send.wait();
      EXPECT_EQ(in, some_bytes(size, previous));
    }
  });
}

TEST(Messages, ASendCompletesOnlyOnceItsReceiveIsPosted) {
  on_devices([](Communicator& comm) {
    if (comm.size() == 1) return;
    for (const std::size_t size : {0, 1, 100'000}) {
      std::vector<std::byte> bytes(size);
      if (comm.rank() == 0) {
        Pending pending = comm.send(bytes, 1, 0);
        bool early = false;
        for (int look = 0; look < 100; ++look) early = early || pending.done();
        EXPECT_FALSE(early);
        EXPECT_FALSE(pending.wait_for(5ms));
        comm.send({}, 1, 1).wait();
        pending.wait();
      } else if (comm.rank() == 1) {
        comm.receive({}, 0, 1).wait();
        comm.receive(bytes, 0, 0).wait();
      }
    }
  });
}

TEST(Messages, MatchByPeerTagAndOrder) {
  on_devices([](Communicator& comm) {
    if (comm.size() < 3) return;
    const auto a = some_bytes(8, 1), b = some_bytes(8, 2), c = some_bytes(8, 3);
    if (comm.rank() == 0) {
      Pending first = comm.send(a, 2, 5);
      Pending second = comm.send(b, 2, 5);
      Pending other = comm.send(c, 2, 6);
      other.wait();
      second.wait();
      first.wait();
    } else if (comm.rank() == 1) {
      comm.send(c, 2, 5).wait();
    } else if (comm.rank() == 2) {
      std::vector<std::byte> x(8), y(8), z(8), w(8);
      comm.receive(z, 0, 6).wait();
      comm.receive(w, 1, 5).wait();
      Pending first = comm.receive(x, 0, 5);
      Pending second = comm.receive(y, 0, 5);
      second.wait();
      first.wait();
      EXPECT_EQ(x, a);
      EXPECT_EQ(y, b);
      EXPECT_EQ(z, c);
      EXPECT_EQ(w, c);
    }
  });
}

TEST(Messages, GroupsHaveTagSpacesOfTheirOwn) {
  on_devices([](Communicator& world) {
    if (world.size() < 4 || world.rank() >= 4) return;
    const bool even = world.rank() % 2 == 0;
    const std::vector<int> members = even ? std::vector{2, 0} : std::vector{1, 3};
    const auto pair = world.group(members);
    const auto twin = world.group(members);
    ASSERT_EQ(pair->size(), 2);
    EXPECT_EQ(pair->device(pair->rank()), world.rank());
    const auto one = some_bytes(4, 1), two = some_bytes(4, 2), three = some_bytes(4, 3);
    const int partner = pair->device(1 - pair->rank());

    if (pair->rank() == 0) {
      Pending a = world.send(one, partner, 0);
      Pending b = pair->send(two, 1, 0);
      Pending c = twin->send(three, 1, 0);
    } else {
      std::vector<std::byte> x(4), y(4), z(4);
      Pending c = twin->receive(z, 0, 0);
      Pending b = pair->receive(y, 0, 0);
      Pending a = world.receive(x, partner, 0);
      c.wait();
      b.wait();
      a.wait();
      EXPECT_EQ(x, one);
      EXPECT_EQ(y, two);
      EXPECT_EQ(z, three);
    }
  });
}

TEST(Messages, AreCountedByTheirSender) {
  on_devices([](Communicator& comm) {
    if (comm.size() == 1) return;
    const Sent before = comm.sent();
    const int next = (comm.rank() + 1) % comm.size();
    const int previous = (comm.rank() + comm.size() - 1) % comm.size();
    std::vector<std::byte> out(10 * (comm.rank() + 1)), in(10 * (previous + 1));
    Pending send = comm.send(out, next, 0);
    Pending receive = comm.receive(in, previous, 0);
    send.wait();
    receive.wait();
    EXPECT_EQ(comm.sent().message - before.message, 10 * (comm.rank() + 1));
    EXPECT_EQ(comm.sent().total() - before.total(), 10 * (comm.rank() + 1));
  });
}

TEST(Messages, AWaitThatTimesOutTellsWhomItWaitsFor) {
  on_devices([](Communicator& comm) {
    if (comm.size() == 1) return;
    std::vector<std::byte> bytes(12);
    if (comm.rank() == 0) {
      Pending pending = comm.receive(bytes, 1, 3);
      EXPECT_FALSE(pending.wait_for(1ms));
      EXPECT_EQ(pending.describe(), "receive of 12 B from device 1, tag 3");
      comm.send(bytes, 1, 4).wait();
      EXPECT_TRUE(pending.wait_for(1h));
      EXPECT_EQ(pending.describe(), "nothing");
    } else if (comm.rank() == 1) {
      comm.receive(bytes, 0, 4).wait();
      comm.send(bytes, 0, 3).wait();
    }
  });
}

TEST(Messages, AWaitInVainNamesTheCircleOfThoseWhoWaitForEachOther) {
  on_devices([](Communicator& comm) {
    if (comm.size() != 4) return;
    comm.barrier().wait();
    comm.set_patience(4s);
    std::byte byte{};
    std::string error;
    try {
      comm.receive(std::span(&byte, 1), (comm.rank() + 1) % 4, 0).wait();
    } catch (const DeviceLost& lost) {
      error = lost.what();
    }
    comm.set_patience(1h);
    comm.barrier().wait();
    if (comm.rank() != 2) return;
    EXPECT_EQ(error,
              "device 2 has waited 4.00 s for its receive of 1 B from device 3, tag 0; device 3 "
              "waits for device 0, device 0 waits for device 1, device 1 waits for device 2: they "
              "wait for each other in a circle");
  });
}

TEST(Messages, RefuseWhatCannotBeMeant) {
  on_devices([](Communicator& comm) {
    std::vector<std::byte> bytes(1);
    EXPECT_THROW((void)comm.send(bytes, comm.rank(), 0), InternalError);
    EXPECT_THROW((void)comm.send(bytes, comm.size(), 0), InternalError);
    EXPECT_THROW((void)comm.send(bytes, 0, kTags), InternalError);
    EXPECT_THROW((void)comm.receive(bytes, -1, 0), InternalError);
    EXPECT_THROW((void)comm.group(std::vector{0, 0}), InternalError);
  });
}

}  // namespace
}  // namespace cleave::comm
