// Runs on threads, on MPI ranks and over TCP: see support/devices.h.
#include <chrono>
#include <vector>

#include "support/devices.h"
#include <gtest/gtest.h>

#include "cleave/base/check.h"
#include "cleave/comm/turn_transport.h"

namespace cleave::comm {
namespace {

using testing::on_devices;

/// Who meets process 0, one after another: some more often than others.
std::vector<int> order_of(int processes) {
  std::vector<int> order;
  for (int turn = 0; turn < 12; ++turn) order.push_back(1 + turn * turn % (processes - 1));
  return order;
}

std::vector<int> others_of(const Communicator& processes) {
  if (processes.rank() != 0) return {processes.rank()};
  std::vector<int> others;
  for (int process = 1; process < processes.size(); ++process) others.push_back(process);
  return others;
}

/// One turn: a number there and back, and one that both combine.
double take_turn(Communicator& pair, double own) {
  double theirs = 0;
  const int peer = 1 - pair.rank();
  Pending coming = pair.receive(std::as_writable_bytes(std::span(&theirs, 1)), peer, 5);
  pair.send(std::as_bytes(std::span(&own, 1)), peer, 5).wait();
  coming.wait();
  double sum = own;
  pair.combine(std::span(&sum, 1), Combine::Sum);
  EXPECT_EQ(sum, own + theirs);
  return theirs;
}

TEST(Turns, ConnectTheFirstProcessToWhoeverItFaces) {
  on_devices([](Communicator& processes) {
    if (processes.size() == 1) return;
    TurnTransport transport(processes, others_of(processes));
    Communicator pair(transport);
    EXPECT_EQ(pair.size(), 2);
    int turn = 0;
    for (const int process : order_of(processes.size())) {
      ++turn;
      if (processes.rank() == 0) {
        transport.face(process);
        EXPECT_EQ(take_turn(pair, turn), 100 * process + turn);
      } else if (processes.rank() == process) {
        EXPECT_EQ(take_turn(pair, 100 * process + turn), turn);
      }
    }
    processes.barrier().wait();
  });
}

TEST(Turns, CountTheirOwnBytesAlone) {
  on_devices([](Communicator& processes) {
    if (processes.size() == 1 || processes.rank() > 1) return;
    const int client[] = {1};
    TurnTransport transport(processes, client);
    Communicator pair(transport);

    take_turn(pair, 3);

    EXPECT_EQ(pair.sent(), (Sent{.message = 8, .numbers = 8}));
  });
}

TEST(Turns, LoseADeviceThatDoesNotComeAfterTheirOwnPatience) {
  on_devices([](Communicator& processes) {
    if (processes.size() != 2) return;
    const int client[] = {1};
    TurnTransport transport(processes, client);
    Communicator pair(transport);
    if (processes.rank() == 0) {
      pair.set_patience(std::chrono::milliseconds(50));
      double number = 0;
      Pending never = pair.receive(std::as_writable_bytes(std::span(&number, 1)), 1, 0);
      EXPECT_THROW(never.wait(), DeviceLost);
      never.withdraw();
    }
    take_turn(pair, 7);  // whoever gave up may begin anew
  });
}

}  // namespace
}  // namespace cleave::comm
