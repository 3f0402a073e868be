#include "plan/plan_export.h"

#include <algorithm>
#include <array>
#include <vector>

#include "json_text.h"
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "cleave/base/check.h"
#include "cleave/model/family.h"

namespace cleave::app {
namespace {

using plan::Layout;
using plan::Workload;
using schedule::Recompute;

/// A schedule of ours, and what another system calls it.
struct ScheduleName {
  std::string_view ours;
  std::string_view theirs;
};

/// Throws UserError that says what the system has instead.
std::string_view schedule_in(std::string_view system, const Layout& layout,
                             const std::vector<ScheduleName>& known) {
  std::string names;
  for (const ScheduleName& one : known) {
    if (one.ours == layout.schedule) return one.theirs;
    names += fmt::format("{}{}", names.empty() ? "" : ", ", one.ours);
  }
  throw UserError(
      fmt::format("{} does not have the schedule {} of {}; it has {}: pass --layout with one",
                  system, layout.schedule, to_string(layout), names));
}

bool is_gated(const ModelShape& model) {
  return model.kind->ffn_matrices == 3;
}

// ---- Megatron-LM: flags of pretrain_gpt.py.

void add_megatron_model(const Workload& work, std::vector<std::string>& flags) {
  const ModelShape& m = work.model;
  flags.push_back(fmt::format("--num-layers {}", m.layers));
  flags.push_back(fmt::format("--hidden-size {}", m.hidden));
  flags.push_back(fmt::format("--num-attention-heads {}", m.heads));
  if (m.kv_heads != m.heads)
    flags.push_back(fmt::format("--group-query-attention --num-query-groups {}", m.kv_heads));
  flags.push_back(fmt::format("--ffn-hidden-size {}", m.ffn));
  flags.push_back(fmt::format("--seq-length {}", work.sequence));
  flags.push_back(fmt::format("--max-position-embeddings {}", work.sequence));
  flags.push_back(fmt::format("--vocab-size {}", m.vocab));
  if (!m.kind->learns_positions) flags.emplace_back("--position-embedding-type rope");
  if (is_gated(m)) flags.emplace_back("--swiglu --normalization RMSNorm --disable-bias-linear");
  if (!m.tie_embeddings) flags.emplace_back("--untie-embeddings-and-output-weights");
  if (work.attention == plan::AttentionKernel::Flash) flags.emplace_back("--use-flash-attn");
}

void add_megatron_layout(const Workload& work, const Layout& layout,
                         std::vector<std::string>& flags) {
  flags.push_back(fmt::format("--tensor-model-parallel-size {}", layout.tensor));
  flags.push_back(fmt::format("--pipeline-model-parallel-size {}", layout.pipeline));
  if (layout.chunks > 1) {
    const int stages = layout.stages();
    require(work.model.layers % stages == 0, "Megatron-LM wants layers to be divided evenly, and ",
            work.model.layers, " layers are not by ", stages,
            " stages; pass --layout with other chunks");
    flags.push_back(
        fmt::format("--num-layers-per-virtual-pipeline-stage {}", work.model.layers / stages));
  }
  if (layout.sequence_parallel) flags.emplace_back("--sequence-parallel");
  if (layout.zero == 1) flags.emplace_back("--use-distributed-optimizer");
  if (layout.zero >= 2)
    flags.push_back(fmt::format("--use-megatron-fsdp --data-parallel-sharding-strategy {}",
                                layout.zero == 2 ? "optim_grads" : "optim_grads_params"));
  if (recompute_of(layout) == Recompute::Selective)
    flags.emplace_back("--recompute-granularity selective");
  if (recompute_of(layout) == Recompute::Full)
    flags.emplace_back(
        "--recompute-granularity full --recompute-method uniform --recompute-num-layers 1");
  flags.push_back(fmt::format("--micro-batch-size {}", layout.microbatch));
  flags.push_back(fmt::format("--global-batch-size {}", work.batch));
}

std::string megatron(const PlanAnswer& answer) {
  const Layout& layout = answer.choice().layout;
  const Workload& work = answer.workload;
  schedule_in("Megatron-LM", layout, {{"1f1b", ""}, {"interleaved", ""}});
  const std::int64_t node = std::min<std::int64_t>(work.cluster.hardware->node, layout.devices());
  std::vector<std::string> flags;
  add_megatron_model(work, flags);
  add_megatron_layout(work, layout, flags);
  flags.emplace_back("--bf16");
  std::string text = fmt::format("torchrun --nnodes {} --nproc-per-node {} pretrain_gpt.py",
                                 (layout.devices() + node - 1) / node, node);
  for (const std::string& flag : flags) text += " \\\n  " + flag;
  return text + "\n";
}

// ---- torchtitan: its TOML.

std::string torchtitan(const PlanAnswer& answer) {
  const Layout& layout = answer.choice().layout;
  const Workload& work = answer.workload;
  const std::string_view schedule = schedule_in("torchtitan", layout,
                                                {{"1f1b", "1F1B"},
                                                 {"gpipe", "GPipe"},
                                                 {"interleaved", "Interleaved1F1B"},
                                                 {"zbv", "ZBVZeroBubble"}});
  const bool shares = layout.zero > 0 && layout.data > 1;
  constexpr std::array<std::string_view, 3> kModes = {"none", "selective", "full"};
  std::string text = fmt::format(
      "# {} of {} layers, {} wide, on {}\n[training]\nseq_len = {}\nlocal_batch_size = {}\n"
      "global_batch_size = {}\nmixed_precision_param = \"bfloat16\"\n\n[parallelism]\n",
      work.model.kind->name, work.model.layers, work.model.hidden, to_string(work.cluster),
      work.sequence, layout.pipeline > 1 ? work.batch / layout.data : layout.microbatch,
      work.batch);
  text += fmt::format(
      "data_parallel_replicate_degree = {}\ndata_parallel_shard_degree = {}\n"
      "tensor_parallel_degree = {}\npipeline_parallel_degree = {}\n",
      shares ? 1 : layout.data, shares ? layout.data : 1, layout.tensor, layout.pipeline);
  if (shares)
    text +=
        fmt::format("fsdp_reshard_after_forward = \"{}\"\n", layout.zero == 3 ? "always" : "never");
  if (layout.pipeline > 1)
    text +=
        fmt::format("pipeline_parallel_schedule = \"{}\"\npipeline_parallel_microbatch_size = {}\n",
                    schedule, layout.microbatch);
  return text + fmt::format("\n[activation_checkpoint]\nmode = \"{}\"\n",
                            kModes[static_cast<std::size_t>(recompute_of(layout))]);
}

// ---- DeepSpeed: its JSON.

std::string deepspeed(const PlanAnswer& answer) {
  const Layout& layout = answer.choice().layout;
  const Workload& work = answer.workload;
  schedule_in("DeepSpeed", layout, {{"1f1b", ""}});
  nlohmann::ordered_json json = {{"train_batch_size", work.batch},
                                 {"train_micro_batch_size_per_gpu", layout.microbatch},
                                 {"gradient_accumulation_steps", plan::microbatches(work, layout)},
                                 {"bf16", {{"enabled", true}}},
                                 {"zero_optimization", {{"stage", layout.zero}}}};
  if (layout.zero > 0) json["zero_optimization"]["overlap_comm"] = true;
  if (layout.tensor > 1) json["tensor_parallel"] = {{"autotp_size", layout.tensor}};
  if (layout.pipeline > 1)
    json["pipeline"] = {
        {"stages", layout.pipeline},
        {"activation_checkpoint_interval", recompute_of(layout) == Recompute::Full ? 1 : 0}};
  return json_text(json, 2);
}

struct System {
  std::string_view name;
  std::string (*write)(const PlanAnswer& answer);
};

constexpr std::array<System, 3> kSystems = {
    {{"megatron", megatron}, {"torchtitan", torchtitan}, {"deepspeed", deepspeed}}};

}  // namespace

std::string export_names() {
  std::string names;
  for (const System& system : kSystems)
    names += fmt::format("{}{}", names.empty() ? "" : ", ", system.name);
  return names;
}

namespace {

const System& system_named(std::string_view name) {
  for (const System& known : kSystems)
    if (known.name == name) return known;
  throw UserError(fmt::format("--export {} is not known; known are {}", name, export_names()));
}

}  // namespace

void check_export(std::string_view system) {
  system_named(system);
}

std::string export_layout(std::string_view system, const PlanAnswer& answer) {
  return system_named(system).write(answer);
}

}  // namespace cleave::app
