#include "serve/run_events.h"

#include <chrono>
#include <filesystem>

#include "streams.h"

#include "cleave/base/file.h"

namespace cleave::app {

train::RunEvent event_now(const std::string& kind, std::int64_t step, const std::string& text) {
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  return {kind, step, text, std::chrono::duration<double>(now).count()};
}

train::RunEvent event_of(const comm::MemberEvent& event, std::int64_t step) {
  train::RunEvent told = event_now(to_string(event.kind), step, event.text);
  const std::chrono::duration<double> since = comm::Clock::now() - event.at;
  told.time -= since.count();
  return told;
}

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
