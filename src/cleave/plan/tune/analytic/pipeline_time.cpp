#include "cleave/plan/tune/analytic/pipeline_time.h"

#include <algorithm>

#include "cleave/plan/time/simulator.h"
#include "cleave/plan/time/trace.h"
#include "cleave/schedule/generators.h"

namespace cleave::plan {
namespace {

/// So many rounds of the pipeline, and every further one is like the last.
constexpr std::int64_t kRounds = 6;

schedule::Program program_of(const Layout& layout, std::int64_t microbatches,
                             const std::vector<PartEdge>& graph = {}) {
  schedule::PipelineShape shape{.devices = layout.pipeline,
                                .microbatches = static_cast<int>(microbatches),
                                .chunks = layout.chunks};
  for (const PartEdge& edge : graph) shape.graph.push_back({.from = edge.from, .to = edge.to});
  return schedule::generate(layout.schedule, shape);
}

double simulated(const PipelineWork& work, std::int64_t microbatches) {
  return makespan(simulate(program_of(work.layout, microbatches, work.graph),
                           {.stages = work.stages}, {.record = Record::DevicesOnly}));
}

/// The stages that a stage reads.
std::vector<int> read_by(const PipelineWork& work, int stage) {
  if (work.graph.empty()) return stage == 0 ? std::vector<int>{} : std::vector{stage - 1};
  std::vector<int> read;
  for (const PartEdge& edge : work.graph)
    if (edge.to == stage) read.push_back(edge.from);
  return read;
}

/// [device] -> seconds of all its chunks per microbatch.
std::vector<StageCosts> device_work(const PipelineWork& work) {
  std::vector<StageCosts> times(work.layout.pipeline);
  for (std::size_t s = 0; s < work.stages.size(); ++s) {
    times[device_of_stage(work.layout, static_cast<int>(s))].add_passes(work.stages[s]);
  }
  return times;
}

}  // namespace

int device_of_stage(const Layout& layout, int stage) {
  return folded(schedule::schedule_named(layout.schedule).fold, layout.pipeline,
                stage / layout.pipeline, stage % layout.pipeline);
}

double busiest_device(const PipelineWork& work) {
  double most = 0;
  for (const StageCosts& device : device_work(work)) most = std::max(most, device.passes());
  return most;
}

double pipeline_bound(const PipelineWork& work) {
  const std::vector<StageCosts> devices = device_work(work);
  const double count = static_cast<double>(work.microbatches);
  const bool split = schedule::schedule_named(work.layout.schedule).splits_backward;
  double bound = 0;
  std::vector<double> arrival(devices.size());   // of the first microbatch
  std::vector<double> way_back(devices.size());  // of the last gradient
  for (std::size_t d = 0; d < devices.size(); ++d) {
    for (const int before : read_by(work, static_cast<int>(d))) {
      const StageCosts& stage = work.stages[before];
      arrival[d] = std::max(arrival[d], arrival[before] + stage.forward);
      way_back[d] =
          std::max(way_back[d], way_back[before] + stage.input + (split ? 0 : stage.weight));
    }
    // W that stands apart can be done while the last gradient is on its way.
    const double before_leaving = devices[d].passes() - (split ? devices[d].weight : 0);
    bound = std::max({bound, arrival[d] + count * devices[d].passes(),
                      arrival[d] + count * before_leaving + way_back[d]});
  }
  return bound;
}

double pipeline_seconds(const PipelineWork& work) {
  const std::int64_t devices = work.layout.pipeline;
  if (devices == 1) return static_cast<double>(work.microbatches) * busiest_device(work);
  const std::int64_t most = (kRounds + 1) * devices + work.microbatches % devices;
  if (work.microbatches <= most) return simulated(work, work.microbatches);
  const double all = simulated(work, most);
  const double round = all - simulated(work, most - devices);
  return all + round * static_cast<double>(work.microbatches - most) / static_cast<double>(devices);
}

std::vector<double> alive_microbatches(const Layout& layout, std::int64_t microbatches) {
  if (schedule::schedule_named(layout.schedule).keeps_all) {
    return std::vector<double>(layout.pipeline, static_cast<double>(microbatches));
  }
  // No schedule that has a steady state holds more than two rounds; what does not divide by the
  // devices is spread over rounds, so as much must be left over as of all of them.
  const std::int64_t rest = microbatches % layout.pipeline;
  const std::int64_t enough =
      std::min(microbatches, 2 * layout.pipeline + (rest == 0 ? layout.pipeline : rest));
  return peak_activations(program_of(layout, enough));
}

}  // namespace cleave::plan
