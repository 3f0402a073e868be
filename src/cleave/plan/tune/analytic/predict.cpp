#include "cleave/plan/tune/analytic/predict.h"

#include <algorithm>
#include <cmath>

#include "cleave/model/family.h"
#include "cleave/plan/hardware/formats.h"
#include "cleave/plan/hardware/kernel_time.h"
#include "cleave/plan/tune/analytic/pipeline_time.h"

namespace cleave::plan {
namespace {

/// Bytes that AdamW reads and writes per parameter, with the gradient norm, clearing the gradients
/// and the bf16 copy.
constexpr double kOptimizerTraffic = 42;

}  // namespace

double model_flops(const Workload& workload) {
  if (has_modules(workload.model))
    return static_cast<double>(workload.batch) *
           static_cast<double>(flops(model_graph(workload, 1)));
  const ModelShape& m = workload.model;
  const double hidden = static_cast<double>(m.hidden);
  const double attention = hidden * static_cast<double>(2 * (m.heads + m.kv_heads) * m.head_size());
  const double matrices = m.kind->ffn_matrices;
  const double ffn = matrices * hidden * static_cast<double>(m.ffn);
  const double layers = static_cast<double>(m.layers);
  const double weights = layers * (attention + ffn) + hidden * static_cast<double>(m.vocab);
  const double sequence = static_cast<double>(workload.sequence);
  const double tokens = static_cast<double>(workload.batch) * sequence;
  return tokens * (6 * weights + 12 * layers * hidden * sequence);
}

const std::vector<PartCost>& Predictor::parts_of(const Layout& layout) {
  const bool accumulates = microbatches(workload_, layout) > 1;
  const auto key = std::tuple(layout.tensor, layout.microbatch, layout.sequence_parallel,
                              accumulates, kernels_of(layout));
  const auto found = parts_.find(key);
  if (found != parts_.end()) return found->second;
  return parts_.emplace(key, part_costs(workload_, layout)).first->second;
}

const std::vector<double>& Predictor::alive_of(const Layout& layout) {
  const std::int64_t count = microbatches(workload_, layout);
  const auto key = std::tuple(layout.schedule, layout.pipeline, layout.chunks, count);
  const auto found = alive_.find(key);
  if (found != alive_.end()) return found->second;
  return alive_.emplace(key, alive_microbatches(layout, count)).first->second;
}

Layout Predictor::with_cut(const Layout& layout) {
  if (!has_modules(workload_.model) || !layout.partition.empty()) return layout;
  // A layout is asked about several times: for its memory, its bound and its time.
  const CutKey key(layout.pipeline, layout.data, layout.tensor, layout.chunks, layout.microbatch,
                   layout.sequence_parallel, layout.zero, recompute_of(layout), layout.schedule);
  const auto [at, fresh] = cuts_.try_emplace(key);
  if (fresh) at->second = cut_modules(workload_, layout, parts_of(layout), alive_of(layout));
  Layout cut = layout;
  cut.partition = at->second;
  return cut;
}

Prediction Predictor::memory(const Layout& given) {
  const Layout layout = with_cut(given);
  Prediction prediction{.layout = layout};
  const std::vector<double>& alive = alive_of(layout);
  for (const Holding& held : device_holdings(workload_, layout, parts_of(layout)))
    prediction.devices.push_back(device_memory(layout, held, alive[prediction.devices.size()]));
  const auto most = std::ranges::max_element(prediction.devices, {}, &DeviceMemory::all);
  prediction.device = static_cast<int>(most - prediction.devices.begin());
  prediction.memory_bytes = std::llround(most->all());
  prediction.budget_bytes = usable_memory(*workload_.cluster.hardware);
  return prediction;
}

/// Reducing gradients, the update, gathering weights: what follows the last microbatch.
double Predictor::after_pipeline(const PipelineWork& work, TimeParts& times) {
  const Layout& layout = work.layout;
  const Hardware& hardware = *workload_.cluster.hardware;
  const std::vector<Holding> devices = device_holdings(workload_, layout, parts_of(layout));
  const double parameters = std::ranges::max(devices, {}, &Holding::trained).trained;
  const CollectiveGroup group = data_group(workload_, layout);
  const double pass = gather_seconds(hardware, kElement * parameters, group);
  if (layout.zero == 0) {
    times.data_communication += all_reduce_seconds(hardware, kGradient * parameters, group);
  } else if (layout.zero <= 2) {
    times.data_communication += (layout.zero == 1 ? 2 : 1) * pass;
  }
  if (hardware.software == Software::Current) {
    // It hides behind the last microbatch's backward pass and the first one's F.
    times.data_communication = exposed_seconds(times.data_communication, busiest_device(work));
  }
  const double split = layout.zero >= 1 ? static_cast<double>(layout.data) : 1;
  times.optimizer = stream_seconds(hardware, kOptimizerTraffic * parameters / split);
  return times.data_communication + times.optimizer;
}

PipelineWork Predictor::work_of(const Layout& layout, const std::vector<StageCosts>& stages) const {
  return {layout, microbatches(workload_, layout), stages,
          graph_.empty() ? graph_ : stage_edges(graph_, with_ends(layout.partition))};
}

double Predictor::bound(const Layout& given) {
  const Layout layout = with_cut(given);
  const std::vector<StageCosts> stages = stage_times(workload_, layout, parts_of(layout));
  const PipelineWork work = work_of(layout, stages);
  TimeParts times;
  return pipeline_bound(work) + after_pipeline(work, times);
}

Prediction Predictor::predict(const Layout& given) {
  check(workload_, given);
  const Layout layout = with_cut(given);
  Prediction prediction = memory(layout);
  const std::vector<StageCosts> stages = stage_times(workload_, layout, parts_of(layout));
  const PipelineWork work = work_of(layout, stages);
  const double pipeline = pipeline_seconds(work);

  TimeParts& times = prediction.parts;
  prediction.step_seconds = pipeline + after_pipeline(work, times);
  Holding model;
  for (const Holding& stage : stage_holdings(workload_, layout, parts_of(layout))) model.add(stage);
  const double count = static_cast<double>(work.microbatches);
  const double share = count / static_cast<double>(layout.pipeline);
  const double exposed = share * model.data_communication;
  times.recompute = share * model.recompute;
  times.tensor_communication = share * model.tensor_communication;
  times.data_communication += exposed;
  times.pipeline_communication =
      2 * count * static_cast<double>(layout.chunks) * hop_seconds(workload_, layout);
  const double busy = count * busiest_device(work);
  times.bubble = pipeline - busy;
  prediction.bubble_rate = times.bubble / pipeline;
  times.arithmetic =
      busy - times.recompute - times.tensor_communication - times.pipeline_communication - exposed;
  return prediction;
}

}  // namespace cleave::plan
