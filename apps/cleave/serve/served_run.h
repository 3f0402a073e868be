#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "serve/epoch_devices.h"
#include "serve/own_devices.h"
#include "serve/served_output.h"
#include "serve/served_plans.h"
#include "train/train_run.h"

#include "cleave/comm/tcp/server.h"
#include "cleave/comm/tcp/tcp_world.h"
#include "cleave/train/tune/regroup.h"

namespace cleave::app {

struct ServeFlags : TrainFlags {
  std::string listen = "127.0.0.1:4242";
  std::string state;
  bool insecure = false;
  bool wait = false;  ///< for devices, if those that are left cannot hold the model
};

/// How the server's own devices reach it, and what it signs with.
struct ServerSelf {
  comm::ServerContact contact;
  std::string key;  ///< empty without TLS
};

/// A run as its server sees it: a sequence of epochs, each with a plan of its own. One ends when a
/// device is lost, and when somebody comes or leaves between two steps; the next goes on from the
/// newest state that is whole, in the memory of those who are left or in a checkpoint. Where
/// devices belong to owners, all must be there at first; a lost one is waited for, or declared
/// absent where updates are averaged.
class ServedRun {
 public:
  /// In `config`, nothing is "auto"; in `asked` something may be, and then the first plan is made
  /// once its devices are here, within the grid of `config`. All must outlive the run.
  ServedRun(const train::Config& config, const train::Config& asked, const ServeFlags& flags,
            comm::Server& server, const ServerSelf& self);

  /// To the end. Throws what ended it otherwise; the devices are told.
  void run();

 private:
  void run_epochs(std::optional<OwnDevices>& further);
  void await_first_devices(comm::TcpWorld& device, std::size_t count);
  void take_first_plan();
  bool train_epoch(comm::TcpWorld& device, const std::string& program);
  train::RunOptions epoch_options();
  void plan_again(comm::TcpWorld& device, const std::string& failure);
  void tell_lack(const std::string& lack);
  void await_owners(const std::string& failure);
  void go_on_with_those_here(const std::string& failure);
  void take_plan(const train::PlannedRun& plan, std::vector<comm::Candidate> candidates);
  void note_plan(const std::string& text);
  void log_events();
  void note_event(const train::RunEvent& event);
  void foresee_a_loss() const;

  train::Config config_;  ///< of the present epoch
  const ServeFlags& flags_;
  comm::Server& server_;
  const ServerSelf& self_;
  ServedPlans plans_;
  const bool owned_;      ///< its devices belong to owners
  EpochDevices devices_;  ///< of the present epoch
  OwnRate rate_;
  train::KeptState kept_;  ///< of the state, from one epoch to the next
  std::vector<std::optional<data::Announced>> announced_;  ///< [client] of its data
  std::unique_ptr<RunWatch> watch_;  ///< of all epochs; nothing before the first
  ServedProgress progress_;
};

}  // namespace cleave::app
