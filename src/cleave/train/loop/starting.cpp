#include "cleave/train/loop/starting.h"

#include <string>
#include <variant>
#include <vector>

#include "cleave/base/check.h"
#include "cleave/checkpoint/reader.h"
#include "cleave/comm/together.h"
#include "cleave/data/given_tokens.h"
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
  const auto bring = [&](std::string& path) {
    const bool is_file = !path.empty() && !path.starts_with(data::kGivenPrefix);
    if (is_file) path = fetch(processes, path, fetch_cache());
  };
  if (!part)
    for (data::DataPath& path : config.data.path) bring(path.path);
  if (config.data.tokenizer != "bytes") bring(config.data.tokenizer);
  bring(config.adapters);
  if (auto* path = std::get_if<std::string>(&config.data.validation)) bring(*path);
  return config;
}

void check_same_data(comm::Communicator& processes, const std::string& data) {
  const std::vector<std::string> all = comm::gather(processes, data);
  comm::together(processes, [&] {
    if (processes.rank() > 0) return;
    for (int other = 1; other < processes.size(); ++other) {
      const std::string& theirs = all[static_cast<std::size_t>(other)];
      require(theirs == data, "device ", processes.device(other), " reads other data (", theirs,
              ") than device ", processes.device(0), " (", data,
              "); data.path, data.validation and data.tokenizer must lead to the same files on "
              "every machine");
    }
  });
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
