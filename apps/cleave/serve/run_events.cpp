#include "serve/run_events.h"

#include <filesystem>

#include "streams.h"

#include "cleave/base/file.h"

namespace cleave::app {

void log_event(const std::string& out, const train::RunEvent& event) {
  const std::filesystem::path directory = out;
  if (!std::filesystem::is_directory(directory)) return;
  try {
    train::MetricsLog(directory / "log.jsonl", train::MetricsLog::kAllSteps).write(event);
  } catch (const IoError& error) {
    complain("cleave serve: warning: {}\n", error.what());
  }
}

}  // namespace cleave::app
