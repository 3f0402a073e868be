#pragma once

#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "cleave/comm/tcp/server.h"
#include "cleave/comm/tcp/server_line.h"
#include "cleave/train/config/config.h"

namespace cleave::app {

/// [device] whose it is, by name; empty if the devices of the run are nobody's in particular. Where
/// updates are averaged the server's is the first, and each client has one of its own.
std::vector<std::string> owners_of_devices(const train::Config& config);

/// The candidates as the devices of the run; nothing as long as an owner's is not among them.
std::optional<std::vector<comm::Candidate>> arrange_by_owner(
    const train::Config& config, const std::vector<comm::Candidate>& candidates);

/// The owners of whom no candidate is.
std::string missing_owners(const train::Config& config,
                           const std::vector<comm::Candidate>& candidates);

/// The candidates as the devices of rounds: the server's, then the clients that are here.
std::vector<comm::Candidate> present_owners(const train::Config& config,
                                            const std::vector<comm::Candidate>& candidates);

/// Declares in edge.absent who of the clients is not here from `round` on, counted from 1, and ends
/// the absences of those who are.
void declare_absences(const std::vector<comm::Candidate>& candidates, std::int64_t round,
                      train::Config& config);

/// The devices of a split run's server but its first, each a thread of the server's process that
/// joins as other machines do. They end when the server says that the run is over.
class OwnDevices {
 public:
  /// As many as `config` has; none if its devices have no owners. All must outlive it.
  OwnDevices(const train::Config& config, comm::Server& server, const comm::ServerContact& contact);
  ~OwnDevices();
  OwnDevices(const OwnDevices&) = delete;
  OwnDevices& operator=(const OwnDevices&) = delete;

 private:
  std::vector<std::thread> threads_;
};

}  // namespace cleave::app
