#include "train/train_run.h"

#include <algorithm>
#include <chrono>
#include <memory>
#include <optional>
#include <string_view>

#include "streams.h"
#include "train/auto_summary.h"
#include "train/train_trace.h"
#include "watch/run_watch.h"
#include <fmt/format.h>

#include "cleave/base/check.h"
#include "cleave/base/file.h"
#include "cleave/comm/together.h"
#include "cleave/data/dataset.h"
#include "cleave/engine/measure/machine.h"
#include "cleave/engine/measure/other_work.h"

namespace cleave::app {
namespace {

constexpr const char* kLatest = "latest";

/// Refuses what is wrong at first sight.
void check_first(const train::Config& config, const TrainFlags& flags) {
  const bool makes_out = !config.devices.emulate;
  if (!flags.trace.empty()) check_trace_name(flags.trace, makes_out ? config.train.out : "");
  if (!makes_out || flags.print_config) return;
  train::check_out(config, options_of(flags).start);
  // Data that owners bring to a server are not there yet.
  if (train::owners_are_apart(config)) return;
  const data::Data opened(train::data_query(config));
}

}  // namespace

train::Config load_run(const TrainFlags& flags, comm::Launcher& launcher) {
  comm::Communicator& world = launcher.processes();
  const bool first = world.rank() == 0;
  std::string text;  // read once: a pipe has it only once
  train::StartOptions start;
  comm::together(world, [&] {
    start = options_of(flags).start;
    if (first) text = read_text(flags.config);
  });
  comm::broadcast(world, text);
  train::ConfigOptions options{.overrides = flags.set, .world_size = launcher.devices()};
  train::Config config;
  const auto parse = [&] { config = train::parse_config(text, flags.config, options); };
  comm::together(world, parse);
  if (start.existing == train::Existing::Resume && !config.devices.emulate) {
    if (first) options.defaults = train::saved_grid(config, start);
    comm::broadcast(world, options.defaults);
    comm::together(world, parse);
  }
  comm::together(world, [&] {
    if (first) check_first(config, flags);
  });
  return config;
}

train::RunOptions options_of(const TrainFlags& flags) {
  const bool resume = !flags.resume.empty();
  require(!(resume && flags.overwrite), "--resume and --overwrite contradict each other; pass one");
  require(!resume || flags.resume == kLatest || flags.init_from.empty(),
          "--resume=CHECKPOINT and --init-from contradict each other; pass one");
  require(flags.json || !flags.lines, "--lines belongs to --json; pass both, or neither");
  require(flags.patience > 0, "--patience ", flags.patience, " must be more than 0 seconds");
  const std::chrono::duration<double> patience(std::min(flags.patience, 1e9));
  using train::Existing;
  return {.start = {.existing = resume            ? Existing::Resume
                                : flags.overwrite ? Existing::Overwrite
                                                  : Existing::Refuse,
                    .resume_from = flags.resume == kLatest ? "" : flags.resume,
                    .init_from = flags.init_from},
          .trace = !flags.trace.empty(),
          .watched = !flags.dashboard.empty(),
          .patience = std::chrono::duration_cast<std::chrono::nanoseconds>(patience)};
}

train::Config planned(const train::Config& config, const TrainFlags& flags,
                      comm::Launcher& launcher) {
  prepare_measuring(flags.remeasure, launcher);
  const train::AutoPlan plan = train::plan_run(config, launcher);
  require_fit(plan);
  if (launcher.processes().rank() == 0)
    print_text(flags.json || flags.print_config ? stderr : stdout, describe_auto(plan));
  return plan.choice().config;
}

std::unique_ptr<RunWatch> begin_watch(const train::Config& config, const TrainFlags& flags,
                                      comm::Launcher& launcher) {
  std::unique_ptr<RunWatch> watch;
  const auto begin = [&] {
    if (launcher.processes().rank() != 0) return;
    std::optional<comm::Address> dashboard;
    if (!flags.dashboard.empty()) dashboard = parse_dashboard(flags.dashboard);
    watch = std::make_unique<RunWatch>(config, dashboard);
  };
  // Devices that have joined over a network come to the run by another way.
  if (launcher.shares_files()) {
    comm::together(launcher.processes(), begin);
  } else {
    begin();
  }
  if (watch && !watch->address().empty())
    print_text(flags.json ? stderr : stdout, fmt::format("dashboard: {}\n", watch->address()));
  return watch;
}

train::RunReport train_as(const train::Config& config, const TrainFlags& flags,
                          const train::RunOptions& options, comm::Launcher& launcher,
                          TrainOutput& output) {
  const bool first = launcher.processes().rank() == 0;
  const std::string warning =
      engine::thread_warning(config.devices.threads, engine::allowed_threads());
  if (first && !warning.empty()) complain("cleave: warning: {}\n", warning);
  const engine::OtherWork others;
  train::RunReport report = train::run(config, options, output, launcher);
  // Of a run of several processes this one knows only what itself has taken.
  if (!launcher.devices()) report.others = others.share();
  if (!first || (options.pause && report.paused)) return report;
  output.finish(report);
  if (!flags.trace.empty() && !report.stopped_at_start) write_trace(flags.trace, report);
  return report;
}

void add_train_flags(CLI::App& command, TrainFlags& flags) {
  command.add_option("config", flags.config, "TOML file")->required();
  command.add_option("--set", flags.set, "Override a key: train.steps=50 (repeatable)")
      ->allow_extra_args(false);
  command.add_flag("--resume{latest}", flags.resume,
                   "Go on from the latest checkpoint in train.out, or from --resume=DIR; begins "
                   "at step 0 if there is none");
  command.add_flag("--overwrite", flags.overwrite, "Begin afresh even if train.out exists");
  command.add_option("--init-from", flags.init_from,
                     "Begin with the weights of this checkpoint; beside --resume, where there is "
                     "none to go on from");
  command.add_option("--trace", flags.trace,
                     "Write the last step, measured and predicted: .json, .html or .svg");
  command
      .add_option("--patience", flags.patience,
                  "Seconds after which a device that does not answer ends the run")
      ->capture_default_str();
  command.add_flag("--dashboard{8421}", flags.dashboard,
                   "Show the run while it goes on, at http://localhost:8421/; --dashboard=PORT for "
                   "another port, 0 for any; --dashboard=HOST:PORT for other machines too, with "
                   "TLS and a token");
  command.add_flag("--remeasure", flags.remeasure,
                   "Measure this machine again where something is \"auto\"");
  command.add_flag("--print-config", flags.print_config, "Print the resolved config and stop");
  command.add_flag("--json", flags.json, "One JSON object on stdout");
  command.add_flag("--lines", flags.lines,
                   "With --json: before it the lines of log.jsonl, as they are written");
}

}  // namespace cleave::app
