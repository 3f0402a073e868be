#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <tuple>
#include <vector>

#include "cleave/plan/tune/analytic/device_memory.h"
#include "cleave/plan/tune/analytic/pipeline_time.h"
#include "cleave/plan/tune/layout_search.h"

namespace cleave::plan {

/// Operations of one step as publications count them: 6 per weight of a product and token, and
/// attention as if nothing were masked.
double model_flops(const Workload& workload);

/// Answers for many layouts of one workload; layouts that have something in common share its cost.
class Predictor : public Oracle {
 public:
  explicit Predictor(const Workload& workload)
      : workload_(workload), graph_(part_edges(model_graph(workload, 1))) {}

  const Workload& workload() const { return workload_; }

  /// Time by the schedule's program and the simulator. Throws UserError on an impossible layout.
  Prediction predict(const Layout& layout);
  std::optional<Prediction> predict(const Layout& layout, double /*limit*/) override {
    return predict(layout);
  }

  /// Memory alone.
  Prediction memory(const Layout& layout);
  bool may_fit(const Layout& layout) override { return memory(layout).fits(); }

  double bound(const Layout& layout) override;
  double roomy_seconds(const Layout& layout) override { return bound(layout); }

 private:
  const std::vector<PartCost>& parts_of(const Layout& layout);
  const std::vector<double>& alive_of(const Layout& layout);
  /// Cut into stages, where that takes more than counting blocks.
  Layout with_cut(const Layout& layout);
  PipelineWork work_of(const Layout& layout, const std::vector<StageCosts>& stages) const;
  double after_pipeline(const PipelineWork& work, TimeParts& times);

  Workload workload_;
  std::vector<PartEdge> graph_;
  std::map<std::tuple<int, int, bool, bool, Kernels>, std::vector<PartCost>> parts_;
  std::map<std::tuple<std::string, int, int, std::int64_t>, std::vector<double>> alive_;
  /// Everything of a layout that a cut depends on, but for what the workload says.
  using CutKey = std::tuple<int, int, int, int, int, bool, int, schedule::Recompute, std::string>;
  std::map<CutKey, std::vector<std::int64_t>> cuts_;
};

}  // namespace cleave::plan
