#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "cleave/comm/communicator.h"
#include "cleave/comm/tcp/server_line.h"
#include "cleave/comm/tcp/tcp_transport.h"

namespace cleave::comm {

/// A device of a run over TCP, from the moment it joins to its end.
class TcpWorld {
 public:
  /// Hears how many devices are still to come.
  using OnWaiting = std::function<void(int to_come)>;

  /// Joins, and waits until the run begins. Other devices call this one at `listen_host`; empty: at
  /// the address by which it reaches the server. Throws UserError if the server refuses.
  TcpWorld(const ServerContact& server, Offer offer, const std::string& listen_host,
           const OnWaiting& on_waiting);
  ~TcpWorld();
  TcpWorld(const TcpWorld&) = delete;
  TcpWorld& operator=(const TcpWorld&) = delete;

  const Assignment& assignment() const { return assignment_; }

  /// Runs `work` as one of the devices, once all of them are there. `program` is the hash of what
  /// this device has compiled; throws UserError if the server's is another. Should `work` throw,
  /// the others are told why.
  void run(const std::string& program, const std::function<void(Communicator& world)>& work);

 private:
  ServerLine line_;
  std::unique_ptr<Listener> listener_;
  Assignment assignment_;
};

}  // namespace cleave::comm
