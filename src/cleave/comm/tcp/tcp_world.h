#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "cleave/comm/communicator.h"
#include "cleave/comm/tcp/listener.h"
#include "cleave/comm/tcp/server_line.h"
#include "cleave/comm/tcp/tcp_transport.h"

namespace cleave::comm {

/// A device of a run over TCP, from the moment it joins to its end. The run is a sequence of
/// epochs, in each of which it is one of the devices or waits.
class TcpWorld {
 public:
  /// Joins. Other devices call this one at `listen_host`; empty: at the address by which it reaches
  /// the server. Once `leaves` says so, it takes part in no further epoch. Throws ServerGone if the
  /// server cannot be reached.
  TcpWorld(const ServerContact& server, Offer offer, const std::string& listen_host,
           std::function<bool()> leaves = {});
  ~TcpWorld();
  TcpWorld(const TcpWorld&) = delete;
  TcpWorld& operator=(const TcpWorld&) = delete;

  /// Nothing once the run is over, or this device leaves; else as ServerLine::await_epoch().
  const std::optional<Assignment>& await_epoch(const ServerLine::OnWaiting& on_waiting);

  /// Runs `work` as one of the devices of the epoch, once all of them are there. `program` is the
  /// hash of what this device has compiled; throws UserError if the server's is another. Should
  /// `work` throw, the others are told why; if it was for another's sake, this device is ready for
  /// the next epoch all the same.
  void run(const std::string& program, const std::function<void(Communicator& world)>& work);

  /// Before a clean end, so that the server does not take this device for lost.
  void say_bye();

  /// Why the run has failed, if it has.
  const std::string& failure() const { return line_.failure(); }

 private:
  void take_part(const std::string& program, const std::function<void(Communicator& world)>& work);

  std::function<bool()> leaves_;
  ServerLine line_;
  std::unique_ptr<Listener> listener_;
  std::optional<Assignment> assignment_;
  bool said_bye_ = false;
  std::optional<Pulse> pulse_;  ///< last: it uses the line
};

}  // namespace cleave::comm
