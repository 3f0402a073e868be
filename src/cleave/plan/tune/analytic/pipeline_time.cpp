#include "cleave/plan/tune/analytic/pipeline_time.h"

#include <algorithm>

#include "cleave/plan/time/costs.h"
#include "cleave/plan/time/simulator.h"
#include "cleave/plan/time/trace.h"
#include "cleave/schedule/generators.h"

namespace cleave::plan {
namespace {

/// So many rounds of the pipeline, and every further one is like the last.
constexpr std::int64_t kRounds = 6;

schedule::Program program_of(const Layout& layout, std::int64_t microbatches) {
  return schedule::generate(layout.schedule, {.devices = static_cast<int>(layout.pipeline),
                                              .microbatches = static_cast<int>(microbatches),
                                              .chunks = static_cast<int>(layout.chunks)});
}

double makespan(const PipelineWork& work, std::int64_t microbatches) {
  const schedule::Program program = program_of(work.layout, microbatches);
  Costs costs;
  for (const StageTime& stage : work.stages) {
    costs.stages.push_back(
        {.forward = stage.forward, .input = stage.input, .weight = stage.weight});
  }
  const Trace trace = simulate(program, costs, {.record = Record::DevicesOnly});
  double end = 0;
  for (const Span& span : trace.spans) end = std::max(end, span.end);
  return end;
}

/// [device] -> seconds of all its chunks per microbatch.
std::vector<StageTime> device_work(const PipelineWork& work) {
  const std::int64_t devices = work.layout.pipeline;
  const bool v = schedule::schedule_named(work.layout.schedule).fold == schedule::Fold::V;
  std::vector<StageTime> times(devices);
  for (std::size_t s = 0; s < work.stages.size(); ++s) {
    const std::int64_t at = static_cast<std::int64_t>(s) % devices;
    const bool back = v && static_cast<std::int64_t>(s) >= devices;
    StageTime& device = times[back ? devices - 1 - at : at];
    device.forward += work.stages[s].forward;
    device.input += work.stages[s].input;
    device.weight += work.stages[s].weight;
  }
  return times;
}

}  // namespace

double busiest_device(const PipelineWork& work) {
  double most = 0;
  for (const StageTime& device : device_work(work)) most = std::max(most, device.all());
  return most;
}

double pipeline_bound(const PipelineWork& work) {
  const std::vector<StageTime> devices = device_work(work);
  const double count = static_cast<double>(work.microbatches);
  const bool split = schedule::schedule_named(work.layout.schedule).splits_backward;
  double bound = 0;
  double arrival = 0;   // of the first microbatch
  double way_back = 0;  // of the last gradient
  for (std::size_t d = 0; d < devices.size(); ++d) {
    // W that stands apart can be done while the last gradient is on its way.
    const double before_leaving = devices[d].all() - (split ? devices[d].weight : 0);
    bound = std::max(
        {bound, arrival + count * devices[d].all(), arrival + count * before_leaving + way_back});
    const StageTime& stage = work.stages[d];
    arrival += stage.forward;
    way_back += stage.input + (split ? 0 : stage.weight);
  }
  return bound;
}

double pipeline_seconds(const PipelineWork& work) {
  const std::int64_t devices = work.layout.pipeline;
  if (devices == 1) return static_cast<double>(work.microbatches) * busiest_device(work);
  const std::int64_t most = (kRounds + 1) * devices + work.microbatches % devices;
  if (work.microbatches <= most) return makespan(work, work.microbatches);
  const double all = makespan(work, most);
  const double round = all - makespan(work, most - devices);
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
