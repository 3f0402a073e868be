#pragma once

#include <cstdint>
#include <filesystem>
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "cleave/train/loop/metrics_log.h"

namespace cleave::app {

/// All that a page about a run shows: what was planned, what every step came to, what happened.
struct RunHistory {
  struct Device {
    std::int64_t planned_bytes = 0;
    std::int64_t budget_bytes = 0;  ///< 0: none
    std::int64_t peak_bytes = 0;    ///< 0: not known yet
    double busy = 0;                ///< seconds of a step; known at the end, as is the next
    double wait = 0;
    std::int64_t sent_bytes = 0;  ///< in a step, as planned
  };

  /// A step as the devices did it, and as it was predicted, in the same columns of time.
  struct Lanes {
    std::int64_t step = 0;  ///< 0: none yet
    double seconds = 0;
    double predicted_seconds = 0;
    std::vector<std::string> measured;  ///< [device] as report::lanes() has them
    std::vector<std::string> predicted;
  };

  std::string name;    ///< of its directory
  std::string config;  ///< as TOML
  std::int64_t steps = 0;
  std::optional<double> predicted_seconds;  ///< of a step
  std::vector<train::StepMetrics> lines;    ///< of steps; fewer than one per step after very many
  std::vector<std::string> events;          ///< sentences, oldest first
  std::vector<Device> devices;
  Lanes lanes;
  bool done = false;
};

/// What a page has already of a run, and how much it takes at once.
struct Known {
  std::int64_t step = 0;
  std::int64_t lanes = 0;  ///< the step that they are of
  std::size_t most_steps = std::numeric_limits<std::size_t>::max();
};

/// As watch.js takes it: what comes after `known`.
nlohmann::json to_json(const RunHistory& run, const Known& known = {});

/// A page has that many steps and events at most, so that a run of any length takes no more memory.
inline constexpr std::size_t kMostLines = 65'536;
inline constexpr std::size_t kMostEvents = 1'000;

/// Adds a step in place of those that are done again with it. Where there are too many, every
/// second, fourth, … of the older ones stays, counted from the first, and those with a validation.
void note_step(RunHistory& run, const train::StepMetrics& metrics);

void note_event(RunHistory& run, const std::string& text);

/// Adds the steps and events of a log.jsonl, all of them. Throws UserError on a line that is
/// neither, or that has a number which no run writes.
void read_log(const std::filesystem::path& log, RunHistory& run);

/// What a run has left in its directory. Throws UserError if there is no log.jsonl in it.
RunHistory read_history(const std::filesystem::path& out);

/// The newest figures in the text format of Prometheus.
std::string metrics_text(const RunHistory& run);

enum class Watch : std::uint8_t { Live, Ended };

/// One page that needs nothing else: with the runs in it, or, live, with none: it asks for them.
std::string run_page(const std::string& title, const std::vector<RunHistory>& runs, Watch watch);

}  // namespace cleave::app
