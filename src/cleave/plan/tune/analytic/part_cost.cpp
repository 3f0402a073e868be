#include "cleave/plan/tune/analytic/part_cost.h"

#include <algorithm>

#include "cleave/model/family.h"
#include "cleave/plan/hardware/formats.h"
#include "cleave/plan/tune/partition.h"
#include "cleave/spec/trainable.h"

namespace cleave::plan {
namespace {

using schedule::Recompute;

/// Communication that runs beside arithmetic takes processors and memory bandwidth away from it.
constexpr double kContention = 0.2;

void add_cost(const SegmentCost& other, SegmentCost& sum) {
  sum.forward += other.forward;
  sum.input += other.input;
  sum.weight += other.weight;
  sum.tensor_communication += other.tensor_communication;
  sum.parameters += other.parameters;
  sum.trained += other.trained;
  sum.kept += other.kept;
  sum.work = std::max(sum.work, other.work);
}

}  // namespace

std::vector<PartCost> part_costs(const Workload& workload, const Layout& layout) {
  // Where all blocks are alike, one stands for them.
  const bool alike = !has_modules(workload.model) && workload.trained.empty();
  Workload looked_at = workload;
  if (alike) looked_at.model.layers = 1;
  Graph model = model_graph(looked_at, layout.microbatch);
  leave_out_unwanted(model);
  const std::vector<bool> wants = wants_gradients(model);
  std::vector<PartCost> parts;
  std::size_t segment = 0;
  for (const std::int64_t count : parts_of(model)) {
    PartCost& part = parts.emplace_back();
    for (std::int64_t k = 0; k < count; ++k, ++segment) {
      const SegmentSpec& spec = model.segments[segment];
      const SegmentContext context{
          .hardware = *workload.cluster.hardware,
          .attention = workload.attention,
          .kernels = kernels_of(layout),
          .tensor = layout.tensor,
          .sequence_parallel = layout.sequence_parallel && layout.tensor > 1,
          .separate_projections = !workload.model.kind->known_to_early_software &&
                                  workload.cluster.hardware->software == Software::Early,
          .accumulates = microbatches(workload, layout) > 1,
          .wants_gradient = wants[segment]};
      if (spec.block)
        part.block = segment_cost(spec, context);
      else
        add_cost(segment_cost(spec, context), part.rest);
    }
  }
  if (alike) parts[1].count = workload.model.layers;
  return parts;
}

double recomputed_seconds(const SegmentCost& block, Recompute recompute) {
  if (block.backward() == 0) return 0;
  if (recompute == Recompute::Full) return block.forward;
  return recompute == Recompute::Selective ? block.core_attention : 0;
}

double exposed_seconds(double communication, double arithmetic) {
  return std::max(0.0, communication - arithmetic) +
         kContention * std::min(communication, arithmetic);
}

CollectiveGroup data_group(const Workload& workload, const Layout& layout) {
  const int room = std::max(1, workload.cluster.hardware->node / layout.tensor);
  return {layout.data, std::min(layout.data, room)};
}

double hop_seconds(const Workload& workload, const Layout& layout) {
  if (layout.pipeline == 1) return 0;
  const Hardware& hardware = *workload.cluster.hardware;
  const double x = kElement * static_cast<double>(layout.microbatch * workload.sequence) *
                   static_cast<double>(workload.model.hidden);
  const bool together = 2 * layout.tensor * layout.data <= hardware.node;
  double seconds = message_seconds(hardware, x / static_cast<double>(layout.tensor),
                                   together ? Distance::SameNode : Distance::OtherNode);
  // Each member of a tensor group sends its part; what arrives has to be whole again.
  if (layout.tensor > 1 && !layout.sequence_parallel) {
    seconds += gather_seconds(hardware, x, {layout.tensor, std::min(layout.tensor, hardware.node)});
  }
  // Between two chunks of a device there is work to do meanwhile.
  const bool overlaps = layout.chunks > 1 && hardware.software == Software::Current;
  return overlaps ? exposed_seconds(seconds, seconds) : seconds;
}

Exposed zero_exposed(const Workload& workload, const Layout& layout, const SegmentCost& block) {
  if (layout.zero < 2 || layout.data == 1 || block.parameters == 0) return {};
  const Hardware& hardware = *workload.cluster.hardware;
  const CollectiveGroup group = data_group(workload, layout);
  const double pass = gather_seconds(hardware, kElement * block.parameters, group);
  const double forward = layout.zero == 3 ? exposed_seconds(pass, block.forward) : 0;
  if (block.backward() == 0) return {forward, 0};
  const double backward = block.backward() + recomputed_seconds(block, recompute_of(layout));
  if (layout.zero == 2) return {0, exposed_seconds(pass, backward)};
  const double reduce = gather_seconds(hardware, kGradient * block.trained, group);
  return {forward, exposed_seconds(pass + reduce, backward)};
}

}  // namespace cleave::plan
