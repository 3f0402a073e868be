#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "cleave/comm/communicator.h"
#include "cleave/plan/trace.h"
#include "cleave/runtime/compile.h"
#include "cleave/train/config.h"
#include "cleave/train/start.h"
#include "cleave/train/trainer.h"

namespace cleave::train {

struct DeviceReport {
  std::int64_t peak_bytes = 0;  ///< measured
  std::int64_t planned_bytes = 0;
  std::int64_t budget_bytes = 0;    ///< 0: no limit was given
  std::int64_t library_bytes = 0;   ///< what libraries allocated for themselves, outside the arena
  std::int64_t resident_bytes = 0;  ///< of the device's own process at most; 0 if it has none
  std::int64_t parameters = 0;
  std::int64_t bytes_sent = 0;  ///< per step
  double busy = 0;              ///< seconds per step, median
  double wait = 0;
};

/// How a run went.
struct RunReport {
  std::int64_t steps = 0;
  std::vector<double> losses;  ///< one per step of this run
  std::string weights;         ///< hash over all master weights, whatever the layout
  double step_seconds = 0;     ///< median
  std::optional<double> predicted_step_seconds;
  double tokens_per_second = 0;
  double bubble = 0;
  std::optional<double> validation_loss;
  std::vector<DeviceReport> devices;
  bool stopped = false;          ///< by a signal, before the last step
  bool finished_before = false;  ///< there was nothing left to do
  std::string checkpoint;        ///< where the final state is
};

/// Hears of a run while it goes on. Called on device 0 only.
class RunObserver {
 public:
  virtual ~RunObserver() = default;
  virtual void on_compiled(const runtime::CompiledStep&) {}
  virtual void on_resumed(std::int64_t /*step*/, const std::string& /*checkpoint*/) {}
  virtual void on_step(const StepReport&) {}
  virtual void on_evaluated(std::int64_t /*step*/, double /*loss*/) {}
  virtual void on_saved(std::int64_t /*step*/, const std::string& /*directory*/,
                        double /*seconds*/) {}
};

struct RunOptions {
  StartOptions start;
  bool trace = false;  ///< keep the timeline of the last step
};

/// Trains as `config` says: on threads of this process if `world` is null, else as one of its
/// devices (an MPI rank). Throws UserError, DoesNotFit, NonFinite, DeviceLost, IoError;
/// comm::PeerFailed where another rank says what is wrong.
RunReport run(const Config& config, const RunOptions& options, RunObserver& observer,
              comm::Communicator* world = nullptr);

/// Asks running trainings of this process to finish their step, save and leave. Safe in a signal
/// handler.
void request_stop() noexcept;

}  // namespace cleave::train
