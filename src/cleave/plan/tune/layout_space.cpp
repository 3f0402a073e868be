#include "cleave/plan/tune/layout_space.h"

#include <algorithm>

#include "cleave/schedule/generators.h"

namespace cleave::plan {
namespace {

constexpr std::int64_t kMostChunks = 8;
constexpr std::int64_t kMostMicrobatch = 64;

std::vector<std::int64_t> divisors(std::int64_t whole, std::int64_t most) {
  std::vector<std::int64_t> result;
  for (std::int64_t d = 1; d <= std::min(whole, most); ++d) {
    if (whole % d == 0) result.push_back(d);
  }
  return result;
}

bool splits(const ModelShape& model, std::int64_t tensor) {
  return model.heads % tensor == 0 && model.ffn % tensor == 0 &&
         (model.kv_heads % tensor == 0 || tensor % model.kv_heads == 0);
}

void add_schedules(const Workload& workload, Layout layout, std::vector<Layout>& result) {
  const auto add = [&](const schedule::Schedule& schedule, std::int64_t chunks) {
    layout.schedule = schedule.name;
    layout.chunks = chunks;
    result.push_back(layout);
  };
  if (layout.pipeline == 1) return add(schedule::plainest_schedule(1), 1);
  for (std::int64_t chunks = 1; chunks <= kMostChunks; ++chunks) {
    const std::int64_t stages = layout.pipeline * chunks;
    // Stages of equal size, or the model's ends as stages of their own.
    const bool equal = workload.model.layers % stages == 0 || stages == most_stages(workload.model);
    if (chunks > 1 && !equal) continue;
    for (const schedule::Schedule& schedule : schedule::schedules()) {
      const bool takes = schedule.chunks <= chunks && chunks <= schedule.most_chunks;
      if (schedule.on_clusters && takes) add(schedule, chunks);
    }
  }
}

}  // namespace

std::vector<schedule::Recompute> recomputes(const Workload& workload) {
  using enum schedule::Recompute;
  if (workload.attention == AttentionKernel::Flash) return {None, Full};
  return {None, Selective, Full};
}

std::vector<Layout> divisions(const Workload& workload) {
  std::vector<Layout> result;
  const std::int64_t devices = workload.cluster.devices;
  for (const std::int64_t tensor : divisors(devices, workload.cluster.hardware->node)) {
    if (!splits(workload.model, tensor)) continue;
    for (const std::int64_t pipeline : divisors(devices / tensor, workload.model.layers)) {
      const std::int64_t data = devices / tensor / pipeline;
      if (workload.batch % data != 0) continue;
      const int most_zero = data == 1 ? 0 : pipeline == 1 ? 3 : 1;
      for (int zero = 0; zero <= most_zero; ++zero) {
        result.push_back({.tensor = tensor, .pipeline = pipeline, .data = data, .zero = zero});
      }
    }
  }
  return result;
}

std::vector<Layout> runs(const Workload& workload, const Layout& division) {
  std::vector<Layout> result;
  for (const std::int64_t microbatch : divisors(workload.batch / division.data, kMostMicrobatch)) {
    Layout layout = division;
    layout.microbatch = microbatch;
    add_schedules(workload, layout, result);
    if (layout.tensor == 1) continue;
    layout.sequence_parallel = true;
    add_schedules(workload, layout, result);
  }
  return result;
}

}  // namespace cleave::plan
