// What the log of a served run tells while devices come and go.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <fstream>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include "app/served.h"
#include <gtest/gtest.h>

namespace cleave::testing {

/// Lines of the run's log that are of events.
inline std::vector<nlohmann::json> events_of(const TinyRun& run) {
  std::vector<nlohmann::json> events;
  std::istringstream log(read_text(run.out() + "/log.jsonl"));
  for (std::string line; std::getline(log, line);) {
    const nlohmann::json parsed = nlohmann::json::parse(line);
    if (parsed.contains("event")) events.push_back(parsed);
  }
  return events;
}

/// How many steps the log has; they are in order and none is missing, whatever was done again.
inline std::int64_t logged_steps(const TinyRun& run) {
  std::int64_t steps = 0;
  std::istringstream log(read_text(run.out() + "/log.jsonl"));
  for (std::string line; std::getline(log, line);) {
    const nlohmann::json parsed = nlohmann::json::parse(line, nullptr, /*allow_exceptions=*/false);
    if (!parsed.contains("step")) continue;
    EXPECT_EQ(parsed["step"], ++steps);
  }
  return steps;
}

/// False if the run ended, or took too long, before it had done so many steps.
inline bool await_step(const TinyRun& run, Served& served, std::int64_t step) {
  const auto deadline = std::chrono::steady_clock::now() + kServedPatience;
  while (std::chrono::steady_clock::now() < deadline) {
    std::ifstream log(run.out() + "/log.jsonl");
    std::int64_t steps = 0;
    for (std::string line; std::getline(log, line);) steps += line.starts_with("{\"step\"") ? 1 : 0;
    if (steps >= step) return true;
    if (served.server().wait(std::chrono::seconds(0)).exit != -1) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  return false;
}

inline bool has_event(const std::vector<nlohmann::json>& events, const std::string& kind,
                      const std::string& text) {
  return std::ranges::any_of(events, [&](const nlohmann::json& event) {
    return event["event"] == kind &&
           event["text"].get<std::string>().find(text) != std::string::npos;
  });
}

}  // namespace cleave::testing
