#include "plan/plan_query.h"

#include <array>

#include "plan/key_values.h"
#include "words.h"

#include "cleave/base/check.h"
#include "cleave/model/family.h"
#include "cleave/model/presets.h"
#include "cleave/schedule/generators.h"

namespace cleave::app {
namespace {

using schedule::Recompute;

constexpr std::int64_t kSequence = 2048;
constexpr std::int64_t kMost = 1 << 24;  ///< of whatever --layout counts

constexpr std::array<std::string_view, 12> kModelKeys = {
    "preset", "kind",  "layers",   "hidden",         "heads",     "kv_heads",
    "ffn",    "vocab", "sequence", "tie_embeddings", "attention", "context"};
constexpr std::array<std::string_view, 9> kLayoutKeys = {
    "tp", "pp", "dp", "microbatch", "chunks", "schedule", "zero", "recompute", "sequence_parallel"};

/// What the preset has, or what a model of this kind usually has.
ModelShape base_shape(const KeyValues& keys) {
  if (keys.has("preset")) {
    require(!keys.has("kind"), "--model has both a preset and a kind; leave one out");
    return model::find_preset(keys.text("preset", "")).shape;
  }
  for (const char* key : {"kind", "layers", "hidden", "heads"}) {
    require(keys.has(key), "--model needs ", key,
            ", as in --model kind=gpt,layers=96,hidden=12288,heads=96; or give a preset");
  }
  ModelShape shape;
  shape.kind = model::find_family(keys.text("kind", ""));
  shape.tie_embeddings = shape.kind->ties_embeddings;
  shape.vocab = shape.kind->usual_vocabulary;
  return shape;
}

ModelShape parse_shape(const KeyValues& keys) {
  ModelShape shape = base_shape(keys);
  const std::int64_t hidden = shape.hidden;
  const std::int64_t heads = shape.heads;
  shape.layers = keys.number("layers", shape.layers);
  shape.hidden = keys.number("hidden", shape.hidden);
  shape.heads = keys.number("heads", shape.heads);
  shape.kv_heads = keys.number("kv_heads", shape.heads == heads ? shape.kv_heads : shape.heads);
  const std::int64_t usual =
      shape.hidden == hidden ? shape.ffn : shape.kind->default_ffn(shape.hidden);
  shape.ffn = keys.number("ffn", usual);
  shape.vocab = keys.number("vocab", shape.vocab);
  shape.tie_embeddings = keys.truth("tie_embeddings", shape.tie_embeddings);
  return shape;
}

/// What software of the hardware's day did; eager code came with fused attention.
plan::AttentionKernel usual_attention(const plan::Workload& workload, const PlanFlags& flags) {
  const bool early = workload.cluster.hardware->software == plan::Software::Early;
  const bool eager =
      flags.layout && KeyValues("--layout", *flags.layout, kLayoutKeys).number("zero", 0) == 3;
  return workload.model.kind->known_to_early_software && early && !eager
             ? plan::AttentionKernel::Plain
             : plan::AttentionKernel::Flash;
}

plan::AttentionKernel parse_attention(const std::string& name) {
  using enum plan::AttentionKernel;
  require(name == "flash" || name == "plain", "--model attention=", name,
          " is not known; known are flash and plain");
  return name == "flash" ? Flash : Plain;
}

Recompute parse_recompute(const std::string& name) {
  for (const Recompute recompute : {Recompute::None, Recompute::Selective, Recompute::Full}) {
    if (plan::to_string(recompute) == name) return recompute;
  }
  throw UserError(detail::concat("--layout recompute=", name,
                                 " is not known; known are none, selective and full"));
}

/// Whether there is such a schedule is checked with the rest of the layout.
std::int64_t default_chunks(const std::string& name) {
  for (const schedule::Schedule& schedule : schedule::schedules())
    if (schedule.name == name) return schedule.chunks;
  return 1;
}

std::string default_schedule(std::int64_t chunks) {
  return std::string(schedule::plainest_schedule(chunks).name);
}

}  // namespace

plan::Workload parse_workload(const PlanFlags& flags) {
  const bool bare = flags.model.find('=') == flags.model.npos;
  const KeyValues keys("--model", bare ? "preset=" + flags.model : flags.model, kModelKeys);
  plan::Workload workload;
  workload.model = parse_shape(keys);
  const std::int64_t context = workload.model.context;
  workload.sequence =
      keys.number("sequence", keys.number("context", context > 0 ? context : kSequence));
  workload.model.context = workload.sequence;
  const model::Family& family = *workload.model.kind;
  require(family.reads_tokens, "a ", family.name,
          " reads no tokens, and clusters are planned for models that do; plan a config: cleave "
          "plan run.toml");
  check(workload.model);
  for (const std::string_view name : split(flags.trained, ','))
    if (!name.empty()) workload.trained.emplace_back(name);
  workload.cluster = flags.file.devices > 0
                         ? plan::Cluster{&flags.file.hardware, flags.file.devices}
                         : plan::parse_cluster(flags.cluster);
  workload.attention = keys.has("attention") ? parse_attention(keys.text("attention", ""))
                                             : usual_attention(workload, flags);
  workload.batch = flags.batch;
  require(workload.batch >= 1, "--batch ", workload.batch,
          " must be at least 1: sequences per step, all devices together");
  plan::model_graph(workload, 1);  // refuses names that nothing has
  return workload;
}

plan::Layout parse_layout(std::string_view text, const plan::Workload& workload) {
  const KeyValues keys("--layout", text, kLayoutKeys);
  const auto number = [&](const char* key, std::int64_t otherwise) {
    const std::int64_t value = keys.number(key, otherwise);
    require(value <= kMost, "--layout ", key, "=", value, " is beyond any cluster; at most ",
            kMost);
    return static_cast<int>(value);
  };
  plan::Layout layout;
  layout.tensor = number("tp", 1);
  layout.pipeline = number("pp", 1);
  require(layout.tensor >= 1 && layout.pipeline >= 1, "--layout tp=", layout.tensor,
          ",pp=", layout.pipeline, ": both must be at least 1");
  const std::int64_t rest = workload.cluster.devices / layout.tensor / layout.pipeline;
  layout.data = number("dp", std::max<std::int64_t>(1, rest));
  layout.microbatch = number("microbatch", 1);
  layout.chunks = number("chunks", default_chunks(keys.text("schedule", "")));
  layout.schedule = keys.text("schedule", plan::has_loss_over_step(workload.model)
                                              ? "gpipe"
                                              : default_schedule(layout.chunks));
  layout.zero = number("zero", 0);
  layout.recompute = {parse_recompute(keys.text("recompute", "none"))};
  layout.sequence_parallel = keys.truth("sequence_parallel", false) && layout.tensor > 1;
  check(workload, layout);
  return layout;
}

}  // namespace cleave::app
