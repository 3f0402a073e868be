#include "cleave/plan/tune/analytic/predict.h"

#include <algorithm>
#include <cmath>

#include "cleave/model/family.h"
#include "cleave/plan/hardware/formats.h"
#include "cleave/plan/hardware/kernel_time.h"
#include "cleave/plan/tune/analytic/module_cost.h"
#include "cleave/plan/tune/analytic/pipeline_time.h"

namespace cleave::plan {
namespace {

/// Bytes that AdamW reads and writes per parameter, with the gradient norm, clearing the gradients
/// and the bf16 copy.
constexpr double kOptimizerTraffic = 42;

ModelCost model_cost(const Workload& workload, const Layout& layout) {
  const SegmentContext context{
      .hardware = *workload.cluster.hardware,
      .attention = workload.attention,
      .kernels = kernels_of(layout),
      .tensor = layout.tensor,
      .sequence_parallel = layout.sequence_parallel && layout.tensor > 1,
      .separate_projections = !workload.model.kind->known_to_early_software &&
                              workload.cluster.hardware->software == Software::Early,
      .accumulates = microbatches(workload, layout) > 1};
  if (has_modules(workload.model)) return {.parts = part_costs(workload, layout, context)};
  Workload one = workload;
  one.model.layers = 1;
  const Graph model = model_graph(one, layout.microbatch);
  return {.embedding = segment_cost(model.segments[0], context),
          .block = segment_cost(model.segments[1], context),
          .head = segment_cost(model.segments[2], context)};
}

/// [device of the pipeline that has most] parameters.
double most_parameters(const Workload& workload, const Layout& layout, const ModelCost& cost) {
  return std::ranges::max(device_parameters(workload, layout, cost));
}

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

const ModelCost& Predictor::cost_of(const Layout& layout) {
  const bool accumulates = microbatches(workload_, layout) > 1;
  const auto key = std::tuple(layout.tensor, layout.microbatch, layout.sequence_parallel,
                              accumulates, kernels_of(layout));
  const auto found = costs_.find(key);
  if (found != costs_.end()) return found->second;
  return costs_.emplace(key, model_cost(workload_, layout)).first->second;
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
  Layout cut = layout;
  cut.partition = cut_modules(workload_, layout, cost_of(layout).parts, alive_of(layout));
  return cut;
}

Prediction Predictor::memory(const Layout& given) {
  const Layout layout = with_cut(given);
  Prediction prediction{.layout = layout};
  prediction.devices = device_memory(workload_, layout, cost_of(layout), alive_of(layout));
  const auto most = std::ranges::max_element(prediction.devices, {}, &DeviceMemory::all);
  prediction.device = static_cast<int>(most - prediction.devices.begin());
  prediction.memory_bytes = std::llround(most->all());
  prediction.budget_bytes = usable_memory(*workload_.cluster.hardware);
  return prediction;
}

/// Reducing gradients, the update, gathering weights: what follows the last microbatch.
double Predictor::after_pipeline(const PipelineWork& work, TimeParts& parts) {
  const Layout& layout = work.layout;
  const Hardware& hardware = *workload_.cluster.hardware;
  const double parameters = most_parameters(workload_, layout, cost_of(layout));
  const CollectiveGroup group = data_group(workload_, layout);
  const double pass = gather_seconds(hardware, kElement * parameters, group);
  if (layout.zero == 0) {
    parts.data_communication += all_reduce_seconds(hardware, kGradient * parameters, group);
  } else if (layout.zero <= 2) {
    parts.data_communication += (layout.zero == 1 ? 2 : 1) * pass;
  }
  if (hardware.software == Software::Current) {
    // It hides behind the last microbatch's backward pass and the first one's F.
    parts.data_communication = exposed_seconds(parts.data_communication, busiest_device(work));
  }
  const double split = layout.zero >= 1 ? static_cast<double>(layout.data) : 1;
  parts.optimizer = stream_seconds(hardware, kOptimizerTraffic * parameters / split);
  return parts.data_communication + parts.optimizer;
}

double Predictor::bound(const Layout& given) {
  const Layout layout = with_cut(given);
  const std::vector<StageCosts> stages = stage_times(workload_, layout, cost_of(layout));
  const PipelineWork work{layout, microbatches(workload_, layout), stages};
  TimeParts parts;
  return pipeline_bound(work) + after_pipeline(work, parts);
}

Prediction Predictor::predict(const Layout& given) {
  check(workload_, given);
  const Layout layout = with_cut(given);
  Prediction prediction = memory(layout);
  const ModelCost& cost = cost_of(layout);
  const std::vector<StageCosts> stages = stage_times(workload_, layout, cost);
  const PipelineWork work{layout, microbatches(workload_, layout), stages};
  const double pipeline = pipeline_seconds(work);

  TimeParts& parts = prediction.parts;
  prediction.step_seconds = pipeline + after_pipeline(work, parts);
  const double count = static_cast<double>(work.microbatches);
  const double blocks =
      count * static_cast<double>(workload_.model.blocks()) / static_cast<double>(layout.pipeline);
  const BlockOverheads block = block_overheads(workload_, layout, cost);
  parts.recompute = blocks * block.recompute;
  parts.tensor_communication = blocks * block.tensor_communication;
  parts.data_communication += blocks * block.data_communication;
  parts.pipeline_communication =
      2 * count * static_cast<double>(layout.chunks) * hop_seconds(workload_, layout);
  const double busy = count * busiest_device(work);
  parts.bubble = pipeline - busy;
  prediction.bubble_rate = parts.bubble / pipeline;
  parts.arithmetic = busy - parts.recompute - parts.tensor_communication -
                     parts.pipeline_communication - blocks * block.data_communication;
  return prediction;
}

}  // namespace cleave::plan
