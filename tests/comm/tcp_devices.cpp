#include "comm/tcp_devices.h"

#include <chrono>
#include <exception>
#include <mutex>
#include <string>
#include <thread>

#include "support/devices.h"
#include <gtest/gtest.h>

namespace cleave::testing {

using comm::Identity;

TcpDevices::TcpDevices(int devices, Wire wire) {
  constexpr std::chrono::hours kDay{24};
  std::vector<comm::TcpPeer> peers;
  const Identity authority = wire == Wire::Tls ? comm::make_authority("server", kDay) : Identity();
  for (int device = 0; device < devices; ++device) {
    listeners_.push_back(std::make_unique<comm::Listener>(comm::Address{"127.0.0.1", 0}));
    comm::TcpPeer& peer = peers.emplace_back();
    peer.address = {"127.0.0.1", listeners_.back()->port()};
    if (wire == Wire::Plain) continue;
    Identity identity{.key = comm::make_key(), .authority = authority.certificate};
    identity.certificate = comm::certify(authority, comm::public_key_of(identity.key),
                                         "device " + std::to_string(device), kDay);
    peer.fingerprint = comm::read_certificate(identity.certificate).fingerprint;
    tls_.push_back(std::make_unique<comm::Tls>(identity));
  }
  for (int device = 0; device < devices; ++device)
    setups_.push_back({.device = device,
                       .peers = peers,
                       .listener = listeners_[device].get(),
                       .tls = wire == Wire::Tls ? tls_[device].get() : nullptr,
                       .program = "5eed"});
}

void TcpDevices::run(const std::function<void(comm::Communicator&)>& work) {
  std::mutex mutex;
  std::exception_ptr first;
  const auto note = [&](std::exception_ptr error) {
    const std::lock_guard lock(mutex);
    if (!first) first = std::move(error);
  };
  std::vector<std::thread> threads;
  for (const comm::TcpSetup& setup : setups_) {
    threads.emplace_back([&] {
      try {
        comm::TcpTransport transport(setup);
        try {
          comm::Communicator communicator(transport);
          work(communicator);
        } catch (const std::exception& error) {
          note(std::current_exception());
          transport.abort(error.what());
        }
      } catch (...) {
        note(std::current_exception());
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  if (first) std::rethrow_exception(first);
}

void on_devices(const std::function<void(comm::Communicator&)>& work) {
  const auto run = [&](int devices, Wire wire) {
    SCOPED_TRACE(devices);
    TcpDevices(devices, wire).run(work);
  };
  for (const int devices : {1, 2, 4}) run(devices, Wire::Plain);
  run(3, Wire::Tls);
}

}  // namespace cleave::testing
