#include "cleave/comm/tcp/tcp_transport.h"

#include <chrono>
#include <string>

#include "comm/cutting_relay.h"
#include "comm/pattern.h"
#include "comm/tcp_devices.h"
#include <gtest/gtest.h>

#include "cleave/base/check.h"

namespace cleave::comm {
namespace {

using namespace std::chrono_literals;
using testing::TcpDevices;
using testing::Wire;

// Runs `work` and returns what it throws.
template <class Error>
std::string error_of(TcpDevices& devices, const std::function<void(Communicator&)>& work) {
  try {
    devices.run(work);
  } catch (const Error& error) {
    return error.what();
  }
  return "nothing was thrown";
}

TEST(TcpTransport, MovesRandomPatterns) {
  for (const Wire wire : {Wire::Plain, Wire::Tls}) {
    TcpDevices(4, wire).run([](Communicator& comm) {
      for (std::uint32_t seed = 0; seed < 5; ++seed) {
        std::mt19937 random(seed);
        testing::play(comm, testing::random_pattern(comm.size(), random), seed);
      }
    });
  }
}

// 40 kB is less than some messages, so that every kind of frame is cut somewhere.
TEST(TcpTransport, GoesOnWhereABrokenConnectionStopped) {
  for (const Wire wire : {Wire::Plain, Wire::Tls}) {
    TcpDevices devices(2, wire);
    testing::CuttingRelay relay(devices.setup(0).peers[0].address, 40'000, 12);
    devices.setup(1).peers[0].address = relay.address();
    devices.run([](Communicator& comm) {
      const int peer = 1 - comm.rank();
      for (int round = 0; round < 20; ++round) {
        const auto out = testing::some_bytes(100'000, 2 * round + comm.rank());
        std::vector<std::byte> in(out.size());
        Pending receive = comm.receive(in, peer, 0);
        comm.send(out, peer, 0).wait();
        receive.wait();
        EXPECT_EQ(in, testing::some_bytes(in.size(), 2 * round + peer));
        std::mt19937 random(round);
        testing::play(comm, testing::random_pattern(2, random), round);
      }
    });
    EXPECT_EQ(relay.cuts_left(), 0);
  }
}

TEST(TcpTransport, ALinkThatStaysBrokenIsLost) {
  TcpDevices devices(2, Wire::Plain);
  testing::CuttingRelay relay(devices.setup(0).peers[0].address, 1000, 1'000'000);
  devices.setup(1).peers[0].address = relay.address();
  for (const int device : {0, 1}) devices.setup(device).resume_within = 300ms;
  const auto message = error_of<DeviceLost>(devices, [](Communicator& comm) {
    std::vector<std::byte> bytes(100'000);
    (comm.rank() == 0 ? comm.send(bytes, 1, 0) : comm.receive(bytes, 0, 0)).wait();
  });
  EXPECT_NE(message.find(" is lost ("), std::string::npos) << message;
}

TEST(TcpTransport, ADeviceThatThrowsWakesThoseThatWaitForIt) {
  TcpDevices devices(3, Wire::Plain);
  std::string told;
  const auto message = error_of<std::runtime_error>(devices, [&](Communicator& comm) {
    if (comm.rank() == 2) throw std::runtime_error("disk on fire");
    std::vector<std::byte> bytes(4);
    try {
      comm.receive(bytes, 2, 9).wait();
    } catch (const DeviceLost& lost) {
      if (comm.rank() == 0) told = lost.what();
      throw;
    }
  });
  EXPECT_EQ(message, "disk on fire");
  EXPECT_EQ(told,
            "device 2 stopped (disk on fire) while device 0 was at its receive of 4 B from device "
            "2, tag 9");
}

TEST(TcpTransport, ADeviceThatLeftIsLostToThoseThatStillWait) {
  TcpDevices devices(2, Wire::Plain);
  const auto message = error_of<DeviceLost>(devices, [](Communicator& comm) {
    std::vector<std::byte> bytes(4);
    if (comm.rank() == 0) comm.receive(bytes, 1, 1).wait();
  });
  EXPECT_EQ(message,
            "device 1 has finished; device 0 still waits for its receive of 4 B from device 1, tag "
            "1");
}

TEST(TcpTransport, RefusesMessagesWhoseSizesDiffer) {
  TcpDevices devices(2, Wire::Plain);
  const auto message = error_of<InternalError>(devices, [](Communicator& comm) {
    std::vector<std::byte> bytes(comm.rank() == 0 ? 8 : 9);
    (comm.rank() == 0 ? comm.send(bytes, 1, 0) : comm.receive(bytes, 0, 0)).wait();
  });
  EXPECT_NE(message.find("send of 8 B to device 1, tag 0 meets a receive of 9 B"),
            std::string::npos)
      << message;
}

/// What the devices say when device 1 is not as device 0 expects.
std::string refusal(TcpDevices& devices) {
  for (const int device : {0, 1}) devices.setup(device).open_within = 1s;
  return error_of<DeviceLost>(devices, [](Communicator&) {});
}

TEST(TcpTransport, RefusesADeviceThatRunsAnotherProgram) {
  TcpDevices devices(2, Wire::Plain);
  devices.setup(1).program = "0dd";
  EXPECT_NE(refusal(devices).find("program"), std::string::npos);
}

TEST(TcpTransport, RefusesADeviceInAnotherEpoch) {
  TcpDevices devices(2, Wire::Plain);
  devices.setup(1).epoch = 2;
  EXPECT_NE(refusal(devices).find("epoch"), std::string::npos);
}

TEST(TcpTransport, RefusesACertificateThatIsNotTheDevices) {
  TcpDevices devices(2, Wire::Tls);
  devices.setup(0).peers[1].fingerprint = "00";
  EXPECT_NE(refusal(devices).find("did not come within 1.00 s"), std::string::npos);
}

}  // namespace
}  // namespace cleave::comm
