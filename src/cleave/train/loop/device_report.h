#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "cleave/comm/communicator.h"
#include "cleave/plan/time/trace.h"

namespace cleave::train {

struct DeviceReport {
  std::int64_t peak_bytes = 0;  ///< measured
  std::int64_t planned_bytes = 0;
  std::int64_t outside_bytes = 0;  ///< measured: what had moved out of its memory at most
  std::int64_t planned_outside_bytes = 0;
  /// Measured: messages that passed through the host's memory at most.
  std::int64_t host_bytes = 0;
  std::int64_t planned_host_bytes = 0;
  std::int64_t budget_bytes = 0;    ///< 0: no limit was given
  std::int64_t library_bytes = 0;   ///< what libraries allocated for themselves, outside the arena
  std::int64_t resident_bytes = 0;  ///< of the device's own process at most; 0 if it has none
  std::int64_t parameters = 0;
  comm::Sent sent;           ///< in the last step
  comm::Sent planned_sent;   ///< per step
  double compute = 0;        ///< seconds per step in F, I, W, B and R, median
  double extent = 0;         ///< seconds from the first of them to the end of the last, median
  double busy = 0;           ///< seconds per step in compute and STEP, without waits inside, median
  double wait = 0;           ///< the same at messages, also inside compute
  double reduce = 0;         ///< seconds per step in which a REDUCE was on its way, median
  double reduce_hidden = 1;  ///< share of them that the device computed, median
  double tensor = 0;         ///< the same of sums and gatherings inside layers
  double tensor_hidden = 1;
  double moves = 0;  ///< seconds per step in which something moved out or back, median; messages
                     ///< through the host included
  double moves_hidden = 1;
};

/// What was measured last, of a run that may be of any length: a few thousand values.
class RecentValues {
 public:
  void note(double value);
  bool empty() const { return values_.empty(); }

  /// The upper one of the two middle values where there are two; 0 of nothing.
  double median() const;

 private:
  std::vector<double> values_;
  std::size_t next_ = 0;  ///< where the next one goes once all are there
};

/// How long the steps of one device took, and what of it was work.
class StepTimes {
 public:
  /// `held_up`: seconds of the spans of compute and STEP in which the device was at its messages.
  void note(double seconds, std::span<const plan::Span> spans,
            std::span<const plan::CollectiveSpan> exchanges, double held_up);

  std::int64_t steps() const { return steps_; }
  double seconds() const { return seconds_.median(); }
  double last_wait() const { return last_wait_; }
  /// Sets the times of a report.
  void tell(DeviceReport& report) const;

 private:
  std::int64_t steps_ = 0;
  double last_wait_ = 0;
  RecentValues seconds_;
  RecentValues compute_;
  RecentValues extent_;
  RecentValues busy_;
  RecentValues wait_;
  RecentValues reduce_;
  RecentValues reduce_hidden_;
  RecentValues tensor_;
  RecentValues tensor_hidden_;
  RecentValues moves_;
  RecentValues moves_hidden_;
};

/// plan::Summary::bubble_rate of the median step.
double bubble_of(std::span<const DeviceReport> devices);

/// The share of the devices' time in which they did not work.
double idle_of(std::span<const DeviceReport> devices, double step_seconds);

/// [device] -> its report, on every device. `mine` is that of `device`; `world` null: one device.
std::vector<DeviceReport> gather_reports(const DeviceReport& mine, int device, int devices,
                                         comm::Communicator& world);

}  // namespace cleave::train
