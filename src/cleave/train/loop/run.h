#pragma once

#include <chrono>
#include <cstdint>
#include <exception>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "cleave/comm/launcher.h"
#include "cleave/engine/compile/compile.h"
#include "cleave/train/config/config.h"
#include "cleave/train/keep/kept_state.h"
#include "cleave/train/loop/device_report.h"
#include "cleave/train/loop/step_trace.h"
#include "cleave/train/loop/stop.h"
#include "cleave/train/save/start.h"
#include "cleave/train/step/owner_part.h"
#include "cleave/train/step/trainer.h"

namespace cleave::train {

/// A report has no more losses than this, so that a run takes no more memory the longer it is;
/// log.jsonl has them all.
inline constexpr std::size_t kKeptLosses = 1 << 16;

struct SecondsRange {
  double low = 0;
  double high = 0;

  bool contains(double seconds) const { return low <= seconds && seconds <= high; }
};

/// How a run went.
struct RunReport {
  std::int64_t steps = 0;
  std::optional<double> first_loss;  ///< of the first step of this run; none with emulation
  std::vector<double> losses;        ///< of its last steps, up to kKeptLosses; none with emulation
  std::string weights;  ///< hash over all master weights, whatever the layout; empty with emulation
  double step_seconds = 0;             ///< median
  std::optional<double> load_seconds;  ///< what the slowest device took to read its first state
  std::optional<double> predicted_step_seconds;
  std::optional<SecondsRange> predicted_range;  ///< within which a step is to be
  std::optional<double> others;  ///< the share of the processors that other programs took meanwhile
  double tokens_per_second = 0;
  double bubble = 0;               ///< plan::Summary::bubble_rate of the median step
  double idle = 0;                 ///< the share of the devices' time in which they did not work
  std::optional<double> accuracy;  ///< of the validation, for classifiers
  std::optional<double> validation_loss;
  double epochs = 0;    ///< through the training data, since step 0
  double left_out = 0;  ///< share of microbatches without optional inputs, whose modules sat out
  /// What rounds of clients came to whose updates were averaged; nothing otherwise.
  struct Averaged {
    std::int64_t clients = 0;
    std::int64_t rounds = 0;        ///< of this run
    std::int64_t participants = 0;  ///< over all of them
    std::int64_t local_steps = 0;   ///< over all of them
    std::int64_t up_bytes = 0;      ///< what a client sends in a round
    std::int64_t down_bytes = 0;    ///< what it is sent
    std::int64_t absent = 0;        ///< clients that did not answer, over all rounds
    std::int64_t sent_bytes = 0;    ///< what clients sent in all, counted
    double epsilon = 0;             ///< spent since round 0; 0: there was no noise
    /// Of a round whose clients are apart, from one outcome to the next: the median, and what was
    /// predicted of it.
    std::optional<double> seconds = {};
    std::optional<double> predicted_seconds = {};
  };
  std::optional<Averaged> averaged;
  bool exact = false;  ///< numerics.exact, as it was settled
  std::vector<DeviceReport> devices;
  bool stopped = false;                 ///< by a signal, before the last step
  bool paused = false;                  ///< … not by one that reached this process
  bool stopped_at_start = false;        ///< … and before the first: nothing was computed or saved
  bool finished_before = false;         ///< there was nothing left to do
  std::string checkpoint;               ///< where the final state is; empty with emulation
  std::optional<TracedStep> predicted;  ///< from a profile taken before the first step
  std::optional<TracedStep> measured;   ///< the last step, if RunOptions::trace
};

/// How far a file has come in which a run keeps what a tower gives.
struct FeatureNews {
  std::string path;
  std::int64_t bytes = 0;   ///< of the file when it is whole
  std::int64_t images = 0;  ///< of the packed set
  std::int64_t known = 0;   ///< of them, by earlier runs
  std::int64_t done = 0;    ///< of them, so far
};

/// Hears of a run while it goes on. Called on device 0 only.
class RunObserver {
 public:
  virtual ~RunObserver() = default;
  virtual void on_warning(const std::string& /*sentence*/) {}
  virtual void on_compiled(const engine::CompiledStep&) {}
  /// Before the first image is computed, and after each.
  virtual void on_features(const FeatureNews&) {}

  /// `changed`: keys that are not as the checkpoint has them, as one list; may be empty.
  virtual void on_resumed(std::int64_t /*step*/, const std::string& /*checkpoint*/,
                          const std::string& /*changed*/) {}
  /// The first state was read from `directory`; `seconds`: what the slowest device took.
  virtual void on_loaded(const std::filesystem::path& /*directory*/, double /*seconds*/) {}
  virtual void on_predicted(double /*step_seconds*/) {}
  virtual void on_step(const StepReport&) {}

  /// A step as it was predicted, before the first; and, if RunOptions::watched, about every second
  /// the one that was just done.
  virtual void on_predicted(const TracedStep&) {}
  virtual void on_timeline(std::int64_t /*step*/, const TracedStep&) {}
  virtual void on_evaluated(std::int64_t /*step*/, const Evaluation&, std::int64_t /*samples*/) {}
  virtual void on_saved(std::int64_t /*step*/, const std::string& /*directory*/, double /*pause*/) {
  }

  /// A run on threads has failed with `error`, and one of them does not come to its end: nothing
  /// but the end of the process can end it. If this returns, run() goes on waiting for it.
  virtual void on_stuck(const std::exception& /*error*/) {}
};

/// What a device of a plan held at most, and what the plan had said.
struct PlanMemory {
  std::int64_t planned_bytes = 0;  ///< 0: no step of the plan was done
  std::int64_t peak_bytes = 0;     ///< measured
};

struct RunOptions {
  StartOptions start;
  bool trace = false;    ///< keep the timeline of the last step
  bool watched = false;  ///< somebody wants timelines while the run goes on; counts on device 0
  std::chrono::nanoseconds patience = comm::kUsualPatience;  ///< of the watchdog
  bool predict = true;                 ///< profile a step before the first; the same on all devices
  std::function<bool()> pause = {};    ///< asked on device 0 before each step: end after it?
  std::optional<OwnerPart> part = {};  ///< where owners are on machines of their own: whose it is

  /// Where the state is left if the run ends early, and looked for at its beginning; null: nowhere.
  /// The same on all devices.
  KeptState* kept = nullptr;
  /// Where this process finds the memory of its device when the run has ended, in whatever way;
  /// null: nowhere.
  PlanMemory* memory = nullptr;
  /// With `kept`: the devices of the run, then others that may have kept some of the state, and
  /// call give_state(). Null: there are no others.
  comm::Communicator* everyone = nullptr;
};

/// What a process does that has no part in the next plan, but perhaps some of the state.
void give_state(comm::Communicator& everyone, const KeptState& kept);

/// Trains as `config` says, on the devices that `launcher` gives. Throws UserError, DoesNotFit,
/// NonFinite, DeviceLost, IoError; comm::PeerFailed where another rank says what is wrong.
RunReport run(const Config& config, const RunOptions& options, RunObserver& observer,
              comm::Launcher& launcher);

}  // namespace cleave::train
