#pragma once

#include <string>
#include <vector>

#include "train/train_output.h"
#include <CLI/CLI.hpp>

#include "cleave/comm/launcher.h"
#include "cleave/train/config/config.h"
#include "cleave/train/loop/run.h"

namespace cleave::app {

/// What the verbs that train have in common.
struct TrainFlags {
  std::string config;
  std::vector<std::string> set;
  std::string init_from;
  std::string resume;  ///< "latest", a checkpoint, or empty: do not
  std::string trace;
  double patience = 300;  ///< seconds
  std::string dashboard;  ///< a port, or empty: none
  bool overwrite = false;
  bool print_config = false;
  bool json = false;

  TrainOutput::Style style() const {
    return json ? TrainOutput::Style::Json : TrainOutput::Style::Text;
  }
};

void add_train_flags(CLI::App& command, TrainFlags& flags);

/// SIGINT and SIGTERM end the run after the step in hand; SIGUSR1 does so even twice.
void stop_on_signals();

/// Throws UserError where flags contradict each other.
train::RunOptions options_of(const TrainFlags& flags);

/// With everything decided that was "auto".
train::Config planned(const train::Config& config, const TrainFlags& flags,
                      comm::Launcher& launcher);

/// Runs, and on the first device prints the summary and writes the trace.
void train_as(const train::Config& config, const TrainFlags& flags, comm::Launcher& launcher,
              TrainOutput& output);

}  // namespace cleave::app
