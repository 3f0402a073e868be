#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "cleave/comm/communicator.h"
#include "cleave/comm/tcp/tcp_transport.h"

namespace cleave::testing {

enum class Wire { Plain, Tls };

/// Devices of a run on threads of this process, over TCP on the loopback interface. A device that
/// throws aborts the others; the first exception is thrown again.
class TcpDevices {
 public:
  TcpDevices(int devices, Wire wire);

  /// What device `device` needs; a test may change it before it runs.
  comm::TcpSetup& setup(int device) { return setups_.at(device); }

  void run(const std::function<void(comm::Communicator&)>& work);

 private:
  std::vector<std::unique_ptr<comm::Listener>> listeners_;
  std::vector<std::unique_ptr<comm::Tls>> tls_;
  std::vector<comm::TcpSetup> setups_;
};

}  // namespace cleave::testing
