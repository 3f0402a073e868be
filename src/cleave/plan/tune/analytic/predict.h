#pragma once

#include <cstdint>
#include <map>
#include <tuple>
#include <vector>

#include "cleave/plan/tune/analytic/device_memory.h"
#include "cleave/plan/tune/analytic/layout.h"
#include "cleave/plan/tune/analytic/pipeline_time.h"
#include "cleave/plan/tune/analytic/stage_cost.h"

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

  double all() const {
    return arithmetic + recompute + tensor_communication + pipeline_communication +
           data_communication + bubble + optimizer;
  }
};

/// One layout's answer.
struct Prediction {
  Layout layout;
  std::int64_t microbatches = 0;  ///< per replica and step
  double step_seconds = 0;
  TimeParts parts;
  double tflops_per_device = 0;       ///< of the model's own arithmetic: nothing recomputed counts
  std::vector<DeviceMemory> devices;  ///< [device of the pipeline]
  std::int64_t memory_bytes = 0;      ///< of the device that needs most
  std::int64_t budget_bytes = 0;
  bool fits = false;
};

/// Operations of one step as publications count them: 6 per weight of a product and token, and
/// attention as if nothing were masked.
double model_flops(const Workload& workload);

/// Answers for many layouts of one workload; layouts that have something in common share its cost.
class Predictor {
 public:
  explicit Predictor(const Workload& workload) : workload_(workload) {}

  const Workload& workload() const { return workload_; }

  /// Time by the schedule's program and the simulator. Throws UserError on an impossible layout.
  Prediction predict(const Layout& layout);

  /// Memory alone.
  Prediction memory(const Layout& layout);

  /// No less than the weights, gradients and optimizer of one device need.
  double state_bytes(const Layout& layout);

  /// Seconds that no run of this layout goes below, without simulating it.
  double bound(const Layout& layout);

 private:
  const ModelCost& cost_of(const Layout& layout);
  const std::vector<double>& alive_of(const Layout& layout);
  double after_pipeline(const PipelineWork& work, TimeParts& parts);

  Workload workload_;
  std::map<std::tuple<std::int64_t, std::int64_t, bool, bool, Kernels>, ModelCost> costs_;
  std::map<std::tuple<std::string, std::int64_t, std::int64_t, std::int64_t>, std::vector<double>>
      alive_;
};

}  // namespace cleave::plan
