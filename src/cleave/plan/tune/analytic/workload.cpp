#include "cleave/plan/tune/analytic/workload.h"

#include <algorithm>
#include <vector>

#include "cleave/base/check.h"
#include "cleave/model/family.h"
#include "cleave/plan/tune/layout_check.h"
#include "cleave/schedule/generators.h"
#include "cleave/spec/trainable.h"

namespace cleave::plan {
namespace {

void check_size(const char* key, std::int64_t value) {
  require(value >= 1, key, " is ", value, "; it must be at least 1");
}

void check_tensor(const ModelShape& model, int tensor) {
  if (splits(model, tensor)) return;
  check_pieces("model.heads", model.heads, tensor);
  check_pieces("model.ffn", model.ffn, tensor);
  check_pieces("model.vision.heads", model.vision.heads, tensor);
  check_pieces("model.vision.ffn", model.vision.ffn, tensor);
  check_pieces("model.kv_heads", model.kv_heads, tensor);
}

}  // namespace

Graph model_graph(const Workload& workload, std::int64_t sequences) {
  ModelShape shape = workload.model;
  shape.context = std::max(shape.context, workload.sequence);
  Graph model = model::graph_of(shape, {.sequences = sequences,
                                        .sequence = workload.sequence,
                                        .dtype = DType::BF16,
                                        .images = workload.images,
                                        .step = workload.batch});
  train_only(model.segments, workload.trained);
  return model;
}

bool has_modules(const ModelShape& model) {
  return model.vision.layers > 0;
}

bool has_loss_over_step(const ModelShape& model) {
  return model.kind->pairs;
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
  check_devices(layout.pipeline, layout.tensor, layout.data, workload.cluster.devices);
  const std::int64_t layers = workload.model.blocks();
  check_stages(std::int64_t{layout.pipeline} * layout.chunks, layers, layers > 1 ? 2 : 0);
  check_batch("--batch", workload.batch, layout.microbatch, layout.data);
  check_tensor(workload.model, layout.tensor);
  const schedule::Schedule& schedule = schedule::schedule_named(layout.schedule);
  require(!has_loss_over_step(workload.model) || (schedule.any_graph && schedule.keeps_all),
          "the loss of a ", workload.model.kind->name,
          " is over all samples of a step, and schedule ", layout.schedule,
          " begins backward passes before it has them; take gpipe");
  require(!layout.sequence_parallel || workload.model.vision.deepstack.empty(),
          "sequence_parallel divides the rows that deepstack adds; leave it out");
  // A schedule knows how many stages per device it can have.
  schedule::generate(
      layout.schedule,
      {.devices = std::min(layout.pipeline, 2), .microbatches = 2, .chunks = layout.chunks});
}

}  // namespace cleave::plan
