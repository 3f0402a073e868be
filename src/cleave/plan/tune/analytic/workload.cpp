#include "cleave/plan/tune/analytic/workload.h"

#include <algorithm>
#include <vector>

#include "cleave/base/check.h"
#include "cleave/base/nearest.h"
#include "cleave/model/family.h"
#include "cleave/schedule/generators.h"
#include "cleave/spec/trainable.h"

namespace cleave::plan {
namespace {

void check_size(const char* key, std::int64_t value) {
  require(value >= 1, key, " is ", value, "; it must be at least 1");
}

void check_tensor(const ModelShape& model, int tensor) {
  if (splits(model, tensor)) return;
  const auto divides = [&](const char* what, std::int64_t whole) {
    require(whole % tensor == 0, "tp ", tensor, " does not divide ", what, " ", whole,
            "; choose a divisor of it");
  };
  divides("heads", model.heads);
  divides("ffn", model.ffn);
  divides("the heads of the tower", model.vision.heads);
  divides("the ffn of the tower", model.vision.ffn);
  require(model.kv_heads % tensor == 0 || tensor % model.kv_heads == 0, "tp ", tensor,
          " and kv_heads ", model.kv_heads, " do not divide one another; choose a divisor of it");
}

void check_schedule(const Layout& layout) {
  const std::vector<std::string_view> known = schedule::schedule_names();
  std::string names;
  for (const std::string_view name : known)
    names += (names.empty() ? "" : ", ") + std::string(name);
  require(std::ranges::count(known, layout.schedule) == 1, "unknown schedule '", layout.schedule,
          "'", did_you_mean(layout.schedule, known), "; known are ", names);
  // A generator knows how many stages per device it can have.
  schedule::generate(
      layout.schedule,
      {.devices = std::min(layout.pipeline, 2), .microbatches = 2, .chunks = layout.chunks});
}

}  // namespace

Graph model_graph(const Workload& workload, std::int64_t sequences) {
  ModelShape shape = workload.model;
  shape.context = std::max(shape.context, workload.sequence);
  Graph model = model::graph_of(shape, {.sequences = sequences,
                                        .sequence = workload.sequence,
                                        .dtype = DType::BF16,
                                        .images = workload.images});
  train_only(model.segments, workload.trained);
  return model;
}

bool has_modules(const ModelShape& model) {
  return model.vision.layers > 0;
}

bool splits(const ModelShape& model, int tensor) {
  return model.heads % tensor == 0 && model.ffn % tensor == 0 && model.vision.heads % tensor == 0 &&
         model.vision.ffn % tensor == 0 &&
         (model.kv_heads % tensor == 0 || tensor % model.kv_heads == 0);
}

Kernels kernels_of(const Layout& layout) {
  return layout.zero == 3 ? Kernels::Eager : Kernels::Fused;
}

std::int64_t microbatches(const Workload& workload, const Layout& layout) {
  return workload.batch / layout.data / layout.microbatch;
}

void check(const Workload& workload, const Layout& layout) {
  check_size("tp", layout.tensor);
  check_size("pp", layout.pipeline);
  check_size("dp", layout.data);
  check_size("microbatch", layout.microbatch);
  check_size("chunks", layout.chunks);
  require(layout.zero >= 0 && layout.zero <= 3, "zero ", layout.zero, " must be 0, 1, 2 or 3");
  require(layout.devices() == workload.cluster.devices, "tp ", layout.tensor, " x pp ",
          layout.pipeline, " x dp ", layout.data, " are ", layout.devices(),
          " devices, but the cluster has ", workload.cluster.devices, "; make the product ",
          workload.cluster.devices);
  const std::int64_t stages = std::int64_t{layout.pipeline} * layout.chunks;
  const std::int64_t layers = workload.model.blocks();
  require(stages <= layers + (layers > 1 ? 2 : 0), "pp ", layout.pipeline, " x chunks ",
          layout.chunks, " are ", stages, " stages, more than the ", layers,
          " layers, the embedding and the head; use fewer");
  const std::int64_t at_once = std::int64_t{layout.data} * layout.microbatch;
  require(workload.batch % at_once == 0, "--batch ", workload.batch, " is not divisible by dp ",
          layout.data, " x microbatch ", layout.microbatch, "; give a multiple of ", at_once,
          ", for example ", (workload.batch / at_once + 1) * at_once);
  check_tensor(workload.model, layout.tensor);
  check_schedule(layout);
}

}  // namespace cleave::plan
