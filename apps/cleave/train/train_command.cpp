#include <algorithm>
#include <array>
#include <chrono>
#include <memory>

#include "command.h"
#include "ranks.h"
#include "signals.h"
#include "train/train_run.h"
#include "train/train_trace.h"
#include <fmt/format.h>

#include "cleave/base/check.h"
#include "cleave/comm/together.h"
#include "cleave/train/config/config_reference.h"
#include "cleave/train/tune/auto_plan.h"

namespace cleave::app {
namespace {

/// How runs over each transport are started, for those who did it otherwise.
struct Starting {
  train::Transport transport;
  const char* name;
  const char* how;
};
constexpr std::array kStarting = {
    Starting{train::Transport::Mpi, "mpi",
             "neither mpirun nor srun started this process; start it with mpirun -np "},
    Starting{train::Transport::Tcp, "tcp",
             "nobody has joined this process; start cleave serve with this config, which waits for "
             "cleave join, for devices "}};

void check_started(const train::Config& config, const comm::Launcher& launcher) {
  if (launcher.devices()) return;
  for (const Starting& starting : kStarting)
    require(config.devices.transport != starting.transport, "devices.transport is \"",
            starting.name, "\", but ", starting.how, config.devices.count,
            ", or set devices.transport to \"local\"");
}

void train(const TrainFlags& flags, comm::Launcher& launcher) {
  stop_on_usr1();  // once more: MPI and what it loads may have taken the signal for themselves
  launcher.processes().set_patience(
      std::max<std::chrono::nanoseconds>(options_of(flags).patience, kLeastStartPatience));
  train::Config config = load_run(flags, launcher);
  const bool first = launcher.processes().rank() == 0;
  config = needs_plan(config) ? planned(config, flags, launcher)
                              : train::with_latency_hidden(config, launcher);
  if (flags.print_config) {
    if (first) fmt::print("{}", train::to_toml(config));
    return;
  }
  check_started(config, launcher);
  const std::unique_ptr<RunWatch> watch = begin_watch(config, flags, launcher);
  TrainOutput output(config, flags.style());
  if (watch) output.show_on(*watch);
  train_as(config, flags, options_of(flags), launcher, output);
}

}  // namespace

void add_train_command(CLI::App& app) {
  auto flags = std::make_shared<TrainFlags>();
  CLI::App* command = app.add_subcommand("train", "Train a model as a config says.");
  command->footer(
      "Examples:\n"
      "  cleave train run.toml --set train.steps=50 --set parallel.pipeline=4\n"
      "  mpirun -np 4 cleave train run.toml\n"
      "  cleave train examples/split/run.toml --central\n"
      "\nKeys of the config:\n" +
      train::config_help());
  add_train_flags(*command, *flags);
  command->add_flag_callback(
      "--central", [flags] { flags->set.emplace_back("edge.central=true"); },
      "Play all owners of [edge] on one device: the same weights, as --set edge.central=true");
  command->callback([flags] {
    const std::chrono::nanoseconds patience = options_of(*flags).patience;
    stop_on_usr1();
    on_ranks([&](comm::Launcher& launcher) { train(*flags, launcher); }, patience);
  });
}

}  // namespace cleave::app
