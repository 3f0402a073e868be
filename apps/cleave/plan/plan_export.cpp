#include "plan/plan_export.h"

#include <array>
#include <vector>

#include "json_text.h"
#include "plan/export_limits.h"
#include "plan/export_megatron.h"
#include "plan/plan_output.h"
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "cleave/base/check.h"
#include "cleave/model/family.h"

namespace cleave::app {
namespace {

using Json = nlohmann::ordered_json;
using plan::Layout;
using plan::Workload;
using schedule::Recompute;

// ---- Megatron-LM: flags of pretrain_gpt.py.

std::string megatron_text(const Workload& work, const Layout& layout) {
  std::string text = megatron_program(work, layout);
  for (const std::string& flag : megatron_flags(work, layout)) text += " \\\n  " + flag;
  return text + "\n";
}

void add_megatron(const Workload& work, const Layout& layout, Json& json) {
  json["program"] = megatron_program(work, layout);
  json["flags"] = megatron_flags(work, layout);
}

// ---- torchtitan: its TOML.

std::string torchtitan_pipeline(const Workload& work, const Layout& layout) {
  const std::int64_t layers = work.model.layers;
  const std::int64_t ends = layers_of_ends(layers, layout.stages()).value();
  return fmt::format(
      "pipeline_parallel_schedule = \"{}\"\npipeline_parallel_microbatch_size = {}\n"
      "pipeline_parallel_layers_per_stage = {}\npipeline_parallel_first_stage_less_layers = {}\n"
      "pipeline_parallel_last_stage_less_layers = {}\n",
      schedule_name(torchtitan_limits(), layout), layout.microbatch,
      (layers + 2 * ends) / layout.stages(), ends, ends);
}

std::string torchtitan_text(const Workload& work, const Layout& layout) {
  const bool shares = layout.zero > 0 && layout.data > 1;
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
  if (layout.pipeline > 1) text += torchtitan_pipeline(work, layout);
  return text + fmt::format("\n[activation_checkpoint]\nmode = \"{}\"\n",
                            plan::to_string(recompute_of(layout)));
}

void add_torchtitan(const Workload& work, const Layout& layout, Json& json) {
  json["config"] = torchtitan_text(work, layout);
}

// ---- DeepSpeed: its JSON.

Json deepspeed_config(const Workload& work, const Layout& layout) {
  Json json = {{"train_batch_size", work.batch},
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
  return json;
}

std::string deepspeed_text(const Workload& work, const Layout& layout) {
  return json_text(deepspeed_config(work, layout), 2);
}

void add_deepspeed(const Workload& work, const Layout& layout, Json& json) {
  json["config"] = deepspeed_config(work, layout);
}

// ---- All of them.

struct System {
  std::string_view name;  ///< as --export has it
  ExportLimits (*limits)();
  std::string (*text)(const Workload& work, const Layout& layout);
  void (*add)(const Workload& work, const Layout& layout, Json& json);
  void (*check_model)(const ModelShape& model) = nullptr;
};

constexpr std::array<System, 3> kSystems = {
    {{"megatron", megatron_limits, megatron_text, add_megatron, check_megatron_model},
     {"torchtitan", torchtitan_limits, torchtitan_text, add_torchtitan},
     {"deepspeed", deepspeed_limits, deepspeed_text, add_deepspeed}}};

const System& system_named(std::string_view name) {
  for (const System& known : kSystems)
    if (known.name == name) return known;
  throw UserError(fmt::format("--export {} is not known; known are {}", name, export_names()));
}

void check_workload(const System& system, const Workload& work) {
  const std::string_view title = system.limits().name;
  const model::Family& family = *work.model.kind;
  require(!family.reads_images, title, " has no export for models that read images, such as ",
          family.name, "; leave --export out");
  require(work.trained.empty(), title,
          " has no flag or key for what --train says; leave --train or --export out");
  if (system.check_model != nullptr) system.check_model(work.model);
}

}  // namespace

std::string export_names() {
  std::string names;
  for (const System& system : kSystems)
    names += fmt::format("{}{}", names.empty() ? "" : ", ", system.name);
  return names;
}

std::string_view system_title(std::string_view system) {
  return system_named(system).limits().name;
}

plan::Allowed layouts_of_system(std::string_view system, const Workload& work) {
  const System& known = system_named(system);
  check_workload(known, work);
  return [limits = known.limits(), work](const Layout& layout) {
    return lack(limits, work, layout).empty();
  };
}

void check_export(std::string_view system, const Workload& work, const Layout& layout) {
  const System& known = system_named(system);
  check_workload(known, work);
  const ExportLimits limits = known.limits();
  const std::string missing = lack(limits, work, layout);
  require(missing.empty(), limits.name, " does not have ", missing,
          "; change --layout, or leave it out to search among what ", limits.name, " has");
}

std::string export_text(std::string_view system, const PlanAnswer& answer) {
  return system_named(system).text(answer.workload, answer.choice().layout);
}

std::string export_json(std::string_view system, const PlanAnswer& answer) {
  const Layout& layout = answer.choice().layout;
  Json json = {{"system", system}, {"layout", layout_json(layout)}};
  system_named(system).add(answer.workload, layout, json);
  if (answer.searched) json["search"] = describe_search(answer);
  return json_text(json, 2);
}

}  // namespace cleave::app
