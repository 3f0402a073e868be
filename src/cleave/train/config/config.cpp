#include "cleave/train/config/config.h"

#include <algorithm>
#include <fstream>
#include <iterator>

#include <fmt/format.h>

#include "cleave/base/check.h"
#include "cleave/base/file.h"
#include "cleave/checkpoint/adapter.h"
#include "cleave/data/tokenizer/tokenizer.h"
#include "cleave/model/presets.h"
#include "cleave/schedule/generators.h"
#include "cleave/train/config/config_checks.h"
#include "cleave/train/config/config_problems.h"
#include "cleave/train/config/config_rules.h"
#include "cleave/train/config/config_schema.h"
#include "cleave/train/config/config_version.h"
#include "cleave/train/config/model_directory.h"

namespace cleave::train {
namespace {

using Given = GivenKeys;

void start_model(const std::string& preset, const Given& given, Config& c) {
  if (!c.from.empty()) {
    require(preset.empty(),
            "model.from and model.preset both say what the model is; leave one out");
    c.model = shape_in(c.from);
    return;
  }
  if (preset.empty()) {
    Problems problems;
    for (const char* key : {"model.layers", "model.hidden", "model.heads"}) {
      problems.collect([&] {
        require(given.contains(key), key,
                " is missing; set it, or choose a model.preset or model.from");
      });
    }
    problems.report();
    c.model.vocab = 256;
    return;
  }
  c.model = model::find_preset(preset).shape;
}

/// A sequence of a model that reads images is its patches and a class token, and its vocabulary the
/// classes.
void derive_images(const Given& given, Config& c) {
  Problems problems;
  for (const char* key : {"train.sequence", "model.vocab", "model.context"}) {
    problems.collect([&] {
      require(!given.contains(key), key, " is of models that read tokens, and a ",
              c.model.kind->name, " reads images; leave it out");
    });
  }
  if (c.preset.empty() && !given.contains("model.channels")) c.model.channels = 3;
  if (c.model.kind->reads_pixels && !given.contains("model.patch")) c.model.patch = 1;
  problems.collect([&] { check_images(c.model); });
  problems.report();
  c.model.vocab = c.model.classes;
  c.model.context = c.train.sequence = c.model.patches() + 1;
}

/// What follows from other keys and was not given itself. Under a preset it follows only from
/// keys that override the preset.
void derive_model(const Given& given, const model::Family* preset_kind, Config& c) {
  require(!c.model.kind->reads_images || c.data.borders == data::Borders::Crossed,
          "data.documents is of models that read text alone, and a ", c.model.kind->name,
          " does not; leave it out");
  if (!c.from.empty()) {
    check_follows(c, shape_in(c.from));
    if (!given.contains("train.sequence"))
      c.train.sequence = std::min(c.train.sequence, c.model.context);
    if (!c.model.kind->reads_tokens) c.train.sequence = c.model.context;
    return;
  }
  const bool fresh = c.preset.empty();
  require(fresh || c.model.kind == preset_kind, "model.kind is \"", c.model.kind->name,
          "\", but model.preset ", c.preset, " is a ", preset_kind->name,
          "; leave one of them out");
  if ((fresh || given.contains("model.heads")) && !given.contains("model.kv_heads")) {
    c.model.kv_heads = c.model.heads;
  }
  if ((fresh || given.contains("model.hidden")) && !given.contains("model.ffn")) {
    c.model.ffn = c.model.kind->default_ffn(c.model.hidden);
  }
  if (fresh && !given.contains("model.tie_embeddings")) {
    c.model.tie_embeddings = c.model.kind->ties_embeddings;
  }
  const bool both = c.model.kind->reads_images && c.model.kind->reads_tokens;
  require(both || !given.contains("data.images"),
          "data.images is of models that read images and tokens, and a ", c.model.kind->name,
          " does not; leave it out");
  require(!c.model.vision.cached || (both && !c.model.kind->pairs),
          "data.cache is of models that put images into a text, and a ", c.model.kind->name,
          " does not; leave it out");
  require(
      !c.model.vision.cached || c.data.augment.empty(),
      "data.cache keeps what a tower gives for each image, and data.augment changes images each "
      "time; leave one of them out");
  if (!c.model.kind->reads_tokens) return derive_images(given, c);
  if (fresh && both && !given.contains("model.channels")) c.model.channels = 3;
  if (fresh && c.model.kind->pairs && !given.contains("model.features"))
    c.model.features = c.model.vision.hidden;
  if (fresh && !given.contains("model.context")) {
    c.model.context = c.train.sequence;
  } else if (!given.contains("train.sequence")) {
    c.train.sequence = std::min(c.train.sequence, c.model.context);
  }
}

/// The tokenizer of a model that has one.
void derive_data(const Given& given, Config& c) {
  if (given.contains("data.tokenizer") || c.from.empty()) return;
  const std::filesystem::path found = data::find_tokenizer(c.from);
  if (!found.empty()) c.data.tokenizer = found.string();
}

/// What a saved adapter says holds where the config is silent; a run that goes on says it all.
void derive_lora(const Given& given, Config& c) {
  const auto silent = [&](const char* key) { return !given.contains(key); };
  Lora saved{.alpha = static_cast<double>(c.lora.rank), .targets = {Lora::kAllLinear}};
  const bool all = !silent("lora.rank") && !silent("lora.alpha") && !silent("lora.targets");
  if (!c.adapters.empty() && !all) saved = checkpoint::read_adapter_config(c.adapters);
  if (silent("lora.rank")) c.lora.rank = saved.rank;
  if (silent("lora.alpha")) c.lora.alpha = saved.alpha;
  if (silent("lora.targets")) c.lora.targets = saved.targets;
  if (silent("lora.rslora")) c.lora.rslora = saved.rslora;
  const auto other =
      std::ranges::find_if(given, [](const std::string& key) { return key.starts_with("lora."); });
  require(c.lora.rank > 0 || other == given.end(), other == given.end() ? "" : *other,
          " is given without lora.rank; set it, or leave out [lora]");
  if (c.lora.rank == 0) c.lora = {};
}

void derive_train(const Given& given, TrainConfig& t) {
  if (!given.contains("train.min_lr")) t.min_lr = t.lr / 10;
  if (!given.contains("train.warmup")) t.warmup = std::min<std::int64_t>(100, t.steps / 10);
  if (!given.contains("train.decay")) t.decay = std::max<std::int64_t>(1, t.steps / 5);
  if (!given.contains("train.checkpoint_every"))
    t.checkpoint_every = std::clamp<std::int64_t>(t.steps / 10, 25, 250);
}

void derive_layout(const Given& given, std::optional<std::int64_t> world_size, Config& c) {
  ParallelConfig& p = c.parallel;
  if (p.language_data && !given.contains("parallel.data")) p.data = p.language_data;
  if (p.language_tensor && !given.contains("parallel.tensor")) p.tensor = p.language_tensor;
  if (!given.contains("devices.transport") && world_size) c.devices.transport = Transport::Mpi;
  if (!given.contains("devices.count")) {
    const bool known = p.pipeline && p.tensor && p.data;
    require(known || world_size,
            "devices.count is missing; it is needed when an axis of "
            "[parallel] is \"auto\"");
    c.devices.count = world_size ? *world_size : p.devices();
  }
  if (!given.contains("parallel.schedule") && !c.edge.is_split() && p.chunks.value_or(1) > 1)
    p.schedule = schedule::plainest_schedule(*p.chunks).name;
  // A loss over all samples of a step wants every F before the first backward pass.
  if (!given.contains("parallel.schedule") && c.model.kind->pairs) p.schedule = "gpipe";
  if (!given.contains("numerics.data_shards") && !c.edge.is_split())
    c.numerics.data_shards = p.data ? Auto(p.replicas()) : p.data;
  if (given.contains("numerics.tensor_shards")) return;
  c.numerics.tensor_shards = p.tensor;
  if (p.tensor && !given.contains("numerics.vision.tensor_shards"))
    c.numerics.vision_tensor_shards = p.vision_tensor;
}

/// All entries that no key takes are named at once.
void check_entries(const std::vector<Entry>& entries) {
  Problems problems;
  Config ignored;
  for (const Entry& entry : entries) problems.collect([&] { apply(entry, ignored); });
  problems.report();
}

Config resolve(const std::vector<Entry>& entries, const ConfigOptions& options) {
  check_entries(entries);
  Given given;
  for (const Entry& entry : entries) given.emplace(find_key(entry).name);

  Config config;
  for (const Entry& entry : entries) {
    if (entry.key == "model.preset" || entry.key == "model.from") apply(entry, config);
  }
  const std::string preset = config.preset;
  start_model(preset, given, config);
  const model::Family* preset_kind = config.model.kind;
  config.train.dtype = options.default_dtype;
  for (const Entry& entry : entries) apply(entry, config);

  derive_model(given, preset_kind, config);
  derive_data(given, config);
  derive_lora(given, config);
  derive_train(given, config.train);
  derive_edge(given, config);
  derive_layout(given, options.world_size, config);
  check(config, options.world_size);
  return config;
}

}  // namespace

Config load_config(const std::string& path, const ConfigOptions& options) {
  return parse_config(read_text(path), path, options);
}

Config parse_config(std::string_view text, const std::string& name, const ConfigOptions& options) {
  std::vector<Entry> given = read_toml(text, name);
  std::erase_if(given, [](const Entry& entry) { return states_version(entry); });
  for (const std::string& override : options.overrides) given.push_back(read_override(override));
  std::vector<Entry> entries = read_toml(options.defaults, "defaults");
  const auto has_default = [defaults = entries](const Entry& entry) {
    return std::ranges::find(defaults, entry.key, &Entry::key) != defaults.end();
  };
  for (Entry& entry : given) {
    if (!rules::is_auto(entry.value) || !has_default(entry)) entries.push_back(std::move(entry));
  }
  return resolve(entries, options);
}

std::int64_t ParallelConfig::devices() const {
  const std::int64_t of_encoder = vision_data || vision_tensor ? vision_pipeline.value_or(0) : 0;
  return (*pipeline - of_encoder) * *data * *tensor +
         of_encoder * vision_data.value_or(*data) * vision_tensor.value_or(*tensor);
}

std::int64_t batch_of_program(const Config& config) {
  return config.edge.by_example() ? 1 : config.train.batch;
}

data::Query data_query(const Config& config) {
  return {.config = config.data,
          .images = {.side = config.model.image,
                     .patch = config.model.patch,
                     .channels = static_cast<int>(config.model.channels),
                     .classes = config.model.classes,
                     .pairs = config.model.kind->pairs,
                     .rows = config.model.kind->reads_tokens && config.model.patch > 0
                                 ? config.model.image_rows()
                                 : 0,
                     .token = static_cast<std::int32_t>(config.model.image_token),
                     .augment = config.data.augment,
                     .seed = config.train.seed},
          .vocabulary = config.model.vocab,
          .sequence = config.train.sequence,
          .batch = batch_of_program(config),
          .microbatch = config.train.microbatch.value_or(1),
          .seed = config.train.seed,
          .leave_out = config.train.out};
}

std::string grid_of(const Config& config) {
  std::string text;
  for (const Key& key : config_keys()) {
    const bool is_grid = key.name == "train.microbatch" || key.name.starts_with("numerics.");
    const std::optional<Value> value = is_grid ? key.get(config) : std::nullopt;
    if (value && !rules::is_auto(*value))
      text += fmt::format("{} = {}\n", key.name, to_toml(*value));
  }
  return text;
}

std::string to_toml(const Config& config) {
  std::string text;
  std::string_view section;
  for (const Key& key : config_keys()) {
    const std::optional<Value> value = key.get(config);
    if (!value) continue;
    if (section != key.section()) {
      section = key.section();
      text += fmt::format("{}[{}]\n", text.empty() ? "" : "\n", section);
    }
    text += fmt::format("{} = {}\n", key.short_name(), to_toml(*value));
  }
  return text;
}

}  // namespace cleave::train
