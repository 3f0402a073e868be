#pragma once

#include <memory>
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
  std::string dashboard;  ///< PORT or HOST:PORT; empty: none
  bool overwrite = false;
  bool print_config = false;
  bool remeasure = false;
  bool json = false;
  bool lines = false;  ///< with json

  TrainOutput::Style style() const {
    using enum TrainOutput::Style;
    return !json ? Text : lines ? JsonLines : Json;
  }
};

void add_train_flags(CLI::App& command, TrainFlags& flags);

/// Throws UserError where flags contradict each other.
train::RunOptions options_of(const TrainFlags& flags);

/// The config, which the first process reads for all of them. A run that is resumed keeps its grid
/// unless the config says another. What is wrong at first sight is refused before anything is
/// measured. Throws UserError.
train::Config load_run(const TrainFlags& flags, comm::Launcher& launcher);

/// With everything decided that was "auto".
train::Config planned(const train::Config& config, const TrainFlags& flags,
                      comm::Launcher& launcher);

/// What shows the run, on the first device; nothing on others. Says where the dashboard is. Throws
/// UserError on all devices if it cannot be there.
std::unique_ptr<RunWatch> begin_watch(const train::Config& config, const TrainFlags& flags,
                                      comm::Launcher& launcher);

/// Runs, and on the first device prints the summary and writes the trace; not if the run was only
/// paused, as `options` may ask for.
train::RunReport train_as(const train::Config& config, const TrainFlags& flags,
                          const train::RunOptions& options, comm::Launcher& launcher,
                          TrainOutput& output);

}  // namespace cleave::app
