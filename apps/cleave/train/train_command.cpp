#include <algorithm>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <memory>
#include <optional>

#include "command.h"
#include "ranks.h"
#include "train/auto_summary.h"
#include "train/train_output.h"
#include "train/train_trace.h"
#include <fmt/format.h>
#include <unistd.h>

#include "cleave/base/check.h"
#include "cleave/comm/mpi/session.h"
#include "cleave/comm/together.h"
#include "cleave/engine/measure/machine.h"
#include "cleave/train/loop/run.h"

namespace cleave::app {
namespace {

constexpr const char* kLatest = "latest";

struct TrainFlags {
  std::string config;
  std::vector<std::string> set;
  std::string init_from;
  std::string resume;  ///< "latest", a checkpoint, or empty: do not
  std::string trace;
  double patience = 300;  ///< seconds
  bool overwrite = false;
  bool print_config = false;
  bool json = false;
};

/// The first signal asks for a graceful stop, the second ends the process as usual. Not so SIGUSR1:
/// a batch system may send it to mpirun and to every rank, so that it arrives twice.
void stop_gracefully(int signal) {
  train::request_stop();
  if (signal == SIGUSR1) return;
  std::signal(signal, SIG_DFL);
  constexpr char kAnswer[] =
      "cleave: stopping after the step in hand, if one has begun; once more to end at once\n";
  const int error = errno;  // of what the signal interrupted
  [[maybe_unused]] const ssize_t written = ::write(STDERR_FILENO, kAnswer, sizeof kAnswer - 1);
  errno = error;
}

train::RunOptions options_of(const TrainFlags& flags) {
  const bool resume = !flags.resume.empty();
  require(!(resume && flags.overwrite), "--resume and --overwrite contradict each other; pass one");
  require(!(resume && !flags.init_from.empty()),
          "--resume and --init-from contradict each other; pass one");
  require(flags.patience > 0, "--patience ", flags.patience, " must be more than 0 seconds");
  const std::chrono::duration<double> patience(std::min(flags.patience, 1e9));
  using train::Existing;
  return {.start = {.existing = resume            ? Existing::Resume
                                : flags.overwrite ? Existing::Overwrite
                                                  : Existing::Refuse,
                    .resume_from = flags.resume == kLatest ? "" : flags.resume,
                    .init_from = flags.init_from},
          .trace = !flags.trace.empty(),
          .patience = std::chrono::duration_cast<std::chrono::nanoseconds>(patience)};
}

/// With everything decided that was "auto".
train::Config planned(const train::Config& config, const TrainFlags& flags,
                      comm::Launcher& launcher) {
  const train::AutoPlan plan = train::plan_run(config, launcher);
  require_fit(plan);
  if (launcher.processes().rank() == 0)
    fmt::print(flags.json || flags.print_config ? stderr : stdout, "{}", describe_auto(plan));
  return plan.choice().config;
}

void train(const TrainFlags& flags, comm::Launcher& launcher) {
  train::ConfigOptions options{.overrides = flags.set};
  options.world_size = launcher.devices();
  train::Config config;
  train::RunOptions run_options;
  const bool first = launcher.processes().rank() == 0;
  comm::together(launcher.processes(), [&] {
    config = train::load_config(flags.config, options);
    run_options = options_of(flags);
    const bool makes_out = !config.devices.emulate;
    if (first && !flags.trace.empty())
      check_trace_name(flags.trace, makes_out ? config.train.out : "");
  });
  if (needs_plan(config)) config = planned(config, flags, launcher);
  if (flags.print_config) {
    if (first) fmt::print("{}", train::to_toml(config));
    return;
  }
  require(
      launcher.devices() || config.devices.transport == train::Transport::Local,
      "devices.transport is \"mpi\", but neither mpirun nor srun started this process; start it "
      "with mpirun -np ",
      config.devices.count, ", or set devices.transport to \"local\"");
  const std::string warning =
      engine::thread_warning(config.devices.threads, engine::allowed_threads());
  if (first && !warning.empty()) fmt::print(stderr, "cleave: warning: {}\n", warning);
  TrainOutput output(config, flags.json ? TrainOutput::Style::Json : TrainOutput::Style::Text);
  const train::RunReport report = train::run(config, run_options, output, launcher);
  if (!first) return;
  output.finish(report);
  if (!flags.trace.empty() && !report.stopped_at_start) write_trace(flags.trace, report);
}

void run(const TrainFlags& flags) {
  std::signal(SIGUSR1, stop_gracefully);  // Open MPI forwards it to every rank
  if (!comm::launched_by_mpi()) {
    std::signal(SIGINT, stop_gracefully);
    std::signal(SIGTERM, stop_gracefully);
  }
  on_ranks([&](comm::Launcher& launcher) { train(flags, launcher); });
}

}  // namespace

void add_train_command(CLI::App& app) {
  auto flags = std::make_shared<TrainFlags>();
  CLI::App* command = app.add_subcommand("train", "Train a model as a config says.");
  command->footer(
      "Examples:\n"
      "  cleave train run.toml --set train.steps=50 --set parallel.pipeline=4\n"
      "  mpirun -np 4 cleave train run.toml\n"
      "\nKeys of the config:\n" +
      train::config_help());
  command->add_option("config", flags->config, "TOML file")->required();
  command->add_option("--set", flags->set, "Override a key: train.steps=50 (repeatable)")
      ->allow_extra_args(false);
  command->add_flag("--resume{latest}", flags->resume,
                    "Go on from the latest checkpoint in train.out, or from --resume=DIR; begins "
                    "at step 0 if there is none");
  command->add_flag("--overwrite", flags->overwrite, "Begin afresh even if train.out exists");
  command->add_option("--init-from", flags->init_from, "Begin with the weights of this checkpoint");
  command->add_option("--trace", flags->trace,
                      "Write the last step, measured and predicted: .json, .html or .svg");
  command
      ->add_option("--patience", flags->patience,
                   "Seconds after which a device that does not answer ends the run")
      ->capture_default_str();
  command->add_flag("--print-config", flags->print_config, "Print the resolved config and stop");
  command->add_flag("--json", flags->json, "One JSON object on stdout");
  command->callback([flags] { run(*flags); });
}

}  // namespace cleave::app
