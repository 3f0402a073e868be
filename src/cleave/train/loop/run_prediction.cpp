#include "cleave/train/loop/run_prediction.h"

#include <chrono>

#include "cleave/comm/early_bytes.h"
#include "cleave/plan/time/copied_sends.h"
#include "cleave/train/loop/step_trace.h"

namespace cleave::train {
namespace {

// What the simulator takes for granted of messages over long links.
static_assert(plan::kCopiedBytes == comm::kCopiedOnLongLinks);
static_assert(std::chrono::duration<double>(2 * plan::kCopiedFromLatency) == comm::kLongRoundTrip);

}  // namespace

void predict_run(const Job& job, const engine::Profile& profile, RunReport& report) {
  const plan::SimulateOptions options{
      .at_once = job.at_once / job.compiled.mesh.devices_per_place(),
      .early_bytes = comm::kEarlyBytes,
      .norm_way = profile.norm_way,
      .norm_rounds = profile.norm_rounds};
  const auto seconds = [&](const plan::Costs& costs) {
    return predicted_seconds(job.compiled, costs, options);
  };
  report.predicted = predicted_step(job.compiled, profile.costs, options);
  report.predicted_step_seconds = seconds(profile.costs);
  // Devices that share cores do not take turns as regularly as the simulator lets them.
  const double error = job.at_once < job.compiled.devices() ? kErrorOnSharedCores : kError;
  report.predicted_range = {.low = (1 - error) * seconds(profile.quick),
                            .high = (1 + error) * seconds(profile.slow)};
}

}  // namespace cleave::train
