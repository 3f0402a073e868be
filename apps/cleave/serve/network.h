#pragma once

#include <filesystem>
#include <memory>
#include <string>

#include <CLI/CLI.hpp>

#include "cleave/comm/tcp/server_line.h"
#include "cleave/engine/compile/compile.h"
#include "cleave/train/loop/run.h"

namespace cleave::app {

/// Where a server is and how this machine shows who it is.
struct NetworkFlags {
  std::string server;
  std::string keys;  ///< directory; empty: one below ~/.local/state for each server
  bool insecure = false;
};

void add_network_flags(CLI::App& command, NetworkFlags& flags);

/// Below $XDG_STATE_HOME, or ~/.local/state.
std::filesystem::path state_directory(const std::string& name);

/// The directory with this machine's key and certificate for the server.
std::filesystem::path keys_directory(const NetworkFlags& flags);

/// A server that can be talked to: its address, and TLS with this machine's identity.
class Contact {
 public:
  /// Throws UserError if this machine has no certificate of the server yet.
  explicit Contact(const NetworkFlags& flags);

  const comm::ServerContact& server() const { return server_; }

  /// The server's certificate; empty without TLS.
  const std::string& authority() const { return authority_; }

 private:
  std::string authority_;
  std::unique_ptr<comm::Tls> tls_;
  comm::ServerContact server_;
};

/// Makes a key, has the server sign it, and stores both.
void enrol(const NetworkFlags& flags, const std::string& invitation, const std::string& name);

/// Asks for a new certificate if the present one ends within a month.
void renew_if_due(const NetworkFlags& flags);

/// The first device's options, as far as all devices must do the same; all call it together. Those
/// who keep files of their own go on from them if the first does.
train::RunOptions shared_options(comm::Communicator& world, train::RunOptions options);

/// What two programs must agree on before they exchange a message: every instruction of the step,
/// and every tensor.
std::string program_hash(const engine::CompiledStep& step);

}  // namespace cleave::app
