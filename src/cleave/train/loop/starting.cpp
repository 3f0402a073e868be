#include "cleave/train/loop/starting.h"

#include <variant>

#include "cleave/checkpoint/reader.h"
#include "cleave/comm/together.h"
#include "cleave/train/loop/fetch.h"
#include "cleave/train/step/owner_flow.h"

namespace cleave::train {

RunReport stopped_at_start(const Start& start) {
  RunReport report;
  report.stopped = report.stopped_at_start = true;
  report.paused = !stop_was_requested();
  report.checkpoint = start.resume_from.string();
  if (!report.checkpoint.empty())
    report.steps = checkpoint::CheckpointReader(start.resume_from).state().step;
  return report;
}

Config with_fetched_data(Config config, const std::optional<OwnerPart>& part,
                         comm::Communicator& processes) {
  if (part) config = with_own_data(std::move(config), *part);
  for (data::DataPath& path : config.data.path) {
    if (!part) path.path = fetch(processes, path.path, fetch_cache());
  }
  std::string& tokenizer = config.data.tokenizer;
  if (!tokenizer.empty() && tokenizer != "bytes") {
    tokenizer = fetch(processes, tokenizer, fetch_cache());
  }
  if (!config.adapters.empty()) config.adapters = fetch(processes, config.adapters, fetch_cache());
  if (auto* path = std::get_if<std::string>(&config.data.validation))
    *path = fetch(processes, *path, fetch_cache());
  return config;
}

Start start_of_rounds(const Config& config, const StartOptions& options,
                      const checkpoint::CheckpointLayout& layout, comm::Communicator& processes) {
  comm::LocalLauncher here;
  Start start;
  comm::together(processes, [&] {
    if (processes.rank() == 0) start = prepare_start(config, options, layout, here.processes());
  });
  double finished = start.finished ? 1 : 0;
  processes.combine({&finished, 1}, comm::Combine::Max);
  start.finished = finished > 0;
  return start;
}

Start start_of(const Config& config, const StartOptions& options,
               const checkpoint::CheckpointLayout& layout, comm::Launcher& launcher) {
  Start start = prepare_start(config, options, layout, launcher.processes());
  if (launcher.shares_files()) return start;
  comm::Communicator& processes = launcher.processes();
  if (!start.resume_from.empty())
    start.resume_from = fetch_checkpoint(processes, start.resume_from.string(), fetch_cache());
  if (!start.init_from.empty())
    start.init_from = fetch(processes, start.init_from.string(), fetch_cache());
  return start;
}

}  // namespace cleave::train
