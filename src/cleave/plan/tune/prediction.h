#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <string_view>
#include <vector>

#include "cleave/plan/tune/layout.h"

namespace cleave::plan {

/// Where a step's time goes, in seconds on the busiest device; the parts add up to the step.
struct TimeParts {
  double arithmetic = 0;
  double recompute = 0;
  double tensor_communication = 0;
  double pipeline_communication = 0;
  double data_communication = 0;
  double bubble = 0;
  double optimizer = 0;

  double all() const;
};

/// One of the parts, by name: "tensor communication".
struct TimePart {
  std::string_view name;
  double TimeParts::*seconds;
};

/// All parts, in the order in which people read them.
std::span<const TimePart> time_parts();

/// What one device of a pipeline holds, in bytes.
struct DeviceMemory {
  double weights = 0;
  double gradients = 0;
  double optimizer = 0;
  double activations = 0;
  double work = 0;

  double state() const { return weights + gradients + optimizer; }
  double all() const { return state() + activations + work; }
};

/// One layout's answer.
struct Prediction {
  Layout layout;
  double step_seconds = 0;
  TimeParts parts = {};
  double bubble_rate = 0;         ///< as in Summary::bubble_rate
  int device = 0;                 ///< the one that lacks most, or has least to spare
  std::int64_t memory_bytes = 0;  ///< that it needs
  std::int64_t budget_bytes = std::numeric_limits<std::int64_t>::max();  ///< that it has
  std::size_t order = 0;                   ///< the plainer of two layouts has the lower number
  std::vector<DeviceMemory> devices = {};  ///< [device of the pipeline], where it is estimated
  std::vector<std::int64_t> planned = {};  ///< [place] bytes of its plan, where it is compiled

  /// Bytes that its worst device lacks; 0: it fits.
  std::int64_t excess() const { return std::max<std::int64_t>(0, memory_bytes - budget_bytes); }
  bool fits() const { return excess() == 0; }
};

/// The part of a step that devices exchange sums and weights.
inline double communication_share(const Prediction& run) {
  return (run.parts.tensor_communication + run.parts.data_communication) / run.step_seconds;
}

/// The part of the time that costs `other` most against `best`.
struct Reason {
  std::string_view part;  ///< "bubble"
  double share = 0;       ///< more of it, as a share of the best step
};
Reason why_slower(const Prediction& best, const Prediction& other);

}  // namespace cleave::plan
