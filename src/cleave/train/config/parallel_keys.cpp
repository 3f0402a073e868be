#include <algorithm>
#include <array>
#include <string_view>
#include <utility>

#include "cleave/train/config/config_rules.h"
#include "cleave/train/config/config_sections.h"

namespace cleave::train {
namespace {

using namespace rules;  // NOLINT(google-build-using-namespace): one table, one vocabulary

bool set_order(Config& config, const Value& value) {
  const auto* text = as<std::string>(value);
  const auto order = text == nullptr ? std::nullopt : parse_axis_order(*text);
  if (!order) return false;
  config.parallel.order = *order;
  return true;
}

std::optional<Value> get_order(const Config& config) {
  return Value{to_string(config.parallel.order)};
}

bool set_grid(Config& config, const Value& value) {
  const auto* text = as<std::string>(value);
  if (text == nullptr || (*text != "one" && *text != "any")) return false;
  config.parallel.any_grid = *text == "any";
  return true;
}

std::optional<Value> get_grid(const Config& config) {
  return Value{std::string(config.parallel.any_grid ? "any" : "one")};
}

constexpr std::array<std::pair<std::string_view, schedule::Offload>, 4> kOffload = {
    {{"none", schedule::Offload::Nothing},
     {"activations", schedule::Offload::Activations},
     {"optimizer", schedule::Offload::Optimizer},
     {"both", schedule::Offload::Both}}};

bool set_offload(Config& config, const Value& value) {
  if (is_auto(value)) {
    config.parallel.offload.reset();
    return true;
  }
  const auto* name = as<std::string>(value);
  if (name == nullptr) return false;
  const auto* known = std::ranges::find(kOffload, *name, [](const auto& k) { return k.first; });
  if (known == kOffload.end()) return false;
  config.parallel.offload = known->second;
  return true;
}

std::optional<Value> get_offload(const Config& config) {
  if (!config.parallel.offload) return Value{std::string(kAuto)};
  const auto* known =
      std::ranges::find(kOffload, *config.parallel.offload, [](const auto& k) { return k.second; });
  return Value{std::string(known->first)};
}

bool set_partition(Config& config, const Value& value) {
  if (is_auto(value)) {
    config.parallel.partition.reset();
    return true;
  }
  const auto* list = as<Value::List>(value);
  if (list == nullptr || list->empty()) return false;
  std::vector<std::int64_t> layers;
  for (const Value& element : *list) {
    if (!Whole{0}.holds(element)) return false;
    layers.push_back(*as<std::int64_t>(element));
  }
  config.parallel.partition = std::move(layers);
  return true;
}

std::optional<Value> get_partition(const Config& config) {
  if (!config.parallel.partition) return Value{std::string(kAuto)};
  Value::List list;
  for (std::int64_t layers : *config.parallel.partition) list.push_back({layers});
  return Value{std::move(list)};
}

constexpr std::array<std::pair<std::string_view, schedule::Recompute>, 3> kRecompute = {
    {{"none", schedule::Recompute::None},
     {"full", schedule::Recompute::Full},
     {"selective", schedule::Recompute::Selective}}};

bool set_recompute(Config& config, const Value& value) {
  if (is_auto(value)) {
    config.parallel.recompute.reset();
    return true;
  }
  const auto* list = as<Value::List>(value);
  std::vector<schedule::Recompute> layers;
  for (const Value& element : list != nullptr ? *list : Value::List{value}) {
    const auto* name = as<std::string>(element);
    if (name == nullptr) return false;
    const auto* known = std::ranges::find(kRecompute, *name, [](const auto& k) { return k.first; });
    if (known == kRecompute.end()) return false;
    layers.push_back(known->second);
  }
  if (layers.empty()) return false;
  config.parallel.recompute = std::move(layers);
  return true;
}

std::optional<Value> get_recompute(const Config& config) {
  if (!config.parallel.recompute) return Value{std::string(kAuto)};
  Value::List list;
  for (const schedule::Recompute layer : *config.parallel.recompute) {
    const auto* known =
        std::ranges::find(kRecompute, layer, [](const auto& k) { return k.second; });
    list.push_back({std::string(known->first)});
  }
  return list.size() == 1 ? list[0] : Value{std::move(list)};
}

/// Says nothing of runs in which encoders are wherever equal stages put them.
Key placement_key(Key key) {
  key.get = [get = key.get](const Config& config) -> std::optional<Value> {
    if (config.parallel.placement == Placement::Even) return std::nullopt;
    return get(config);
  };
  return key;
}

}  // namespace

std::vector<Key> parallel_keys() {
  const Whole degree{1, 1 << 20};
  return {
      whole_or_auto(
          "parallel.pipeline", degree, "groups of layers, one after another",
          [](auto& c) -> auto& { return c.parallel.pipeline; })
          .with({.example = "4", .of_layout = true}),
      whole_or_auto(
          "parallel.tensor", degree, "pieces of each layer",
          [](auto& c) -> auto& { return c.parallel.tensor; })
          .with({.example = "2", .of_layout = true}),
      whole_or_auto(
          "parallel.data", degree, "replicas that share the batch",
          [](auto& c) -> auto& { return c.parallel.data; })
          .with({.example = "\"auto\"", .of_layout = true}),
      {.name = "parallel.order",
       .rule = "the axes data, pipeline and tensor in some order, such as \"data,pipeline,tensor\"",
       .help = "slowest axis first: neighbouring devices are neighbours along the last",
       .set = set_order,
       .get = get_order},
      whole_or_auto(
          "parallel.chunks", degree, "stages per device; auto: what the schedule wants",
          [](auto& c) -> auto& { return c.parallel.chunks; })
          .with({.of_layout = true}),
      text(
          "parallel.schedule", "the name of a schedule, \"auto\", or a file such as \"my.csv\"",
          "the order of work in a step: docs/schedules.md",
          [](auto& c) -> auto& { return c.parallel.schedule; })
          .with({.otherwise = "\"1f1b\", or \"interleaved\" if chunks is above 1",
                 .example = "\"auto\"",
                 .of_layout = true}),
      {.name = "parallel.partition",
       .rule = "\"auto\" or a list of layers for each stage, such as [6, 6]",
       .help = "layers of each stage",
       .set = set_partition,
       .get = get_partition,
       .example = "[6, 6]",
       .of_layout = true},
      placement_key(
          choice<Placement>(
              "parallel.placement",
              {{"even", Placement::Even},
               {"first", Placement::First},
               {"own", Placement::Own},
               {"shared", Placement::Shared},
               {"auto", Placement::Auto}},
              "where the encoder of a vlm is: on the first device, on its own, on every one "
              "beside a stage of the language model",
              [](auto& c) -> auto& { return c.parallel.placement; })
              .with({.otherwise = "\"even\": stages of equal cost", .example = "\"own\""})),
      whole_or_auto(
          "parallel.zero", {0, 3},
          "what replicas share: 1 optimizer, 2 gradients too, 3 weights too",
          [](auto& c) -> auto& { return c.parallel.zero; })
          .with({.example = "1", .of_layout = true}),
      {.name = "parallel.recompute",
       .rule = "\"none\", \"full\", \"selective\" or \"auto\", or a list with one for each layer",
       .help = "compute activations again instead of keeping them",
       .set = set_recompute,
       .get = get_recompute,
       .example = "\"selective\"",
       .of_layout = true},
      {.name = "parallel.offload",
       .rule = "\"none\", \"activations\", \"optimizer\", \"both\" or \"auto\"",
       .help = "move what is kept for the backward pass, or what only the update reads, out of a "
               "device's memory meanwhile; auto: if the plan does not fit otherwise",
       .set = set_offload,
       .get = get_offload,
       .example = "\"activations\""},
      whole_or_auto(
          "parallel.receive_ahead", {1, 1 << 20},
          "compute instructions from a receive to what reads it; auto: as many as hide the latency "
          "of slow links and fit",
          [](auto& c) -> auto& { return c.parallel.receive_ahead; })
          .with({.example = "4", .of_layout = true}),
      whole_or_auto(
          "parallel.early", {0, 1 << 20},
          "microbatches that a device begins early for each stage after its own, in schedule 1f1b; "
          "auto: as many as hide the latency of slow links and fit",
          [](auto& c) -> auto& { return c.parallel.early; })
          .with({.example = "1", .of_layout = true}),
      boolean(
          "parallel.sequence_parallel", "divide norms by tokens over the tensor axis",
          [](auto& c) -> auto& { return c.parallel.sequence_parallel; }),
      {.name = "parallel.grid",
       .rule = "\"one\" or \"any\"",
       .help = "\"auto\" keeps to one grid, the same on every machine, or takes the fastest here",
       .set = set_grid,
       .get = get_grid,
       .example = "\"any\""},
      placement_key(whole(
                        "parallel.vision.pipeline", degree, "stages of the encoder (placement own)",
                        [](auto& c) -> auto& { return c.parallel.vision_pipeline; })
                        .with({.otherwise = "none", .example = "1"})),
      placement_key(whole(
                        "parallel.vision.data", degree,
                        "replicas of the encoder's stages (placement own)",
                        [](auto& c) -> auto& { return c.parallel.vision_data; })
                        .with({.otherwise = "parallel.data", .example = "4"})),
      placement_key(whole(
                        "parallel.vision.tensor", degree,
                        "pieces of each layer of the encoder (placement own)",
                        [](auto& c) -> auto& { return c.parallel.vision_tensor; })
                        .with({.otherwise = "parallel.tensor", .example = "1"})),
      placement_key(whole(
                        "parallel.language.pipeline", degree,
                        "stages of the language model (placement own)",
                        [](auto& c) -> auto& { return c.parallel.language_pipeline; })
                        .with({.otherwise = "what parallel.pipeline leaves", .example = "3"})),
      placement_key(whole(
                        "parallel.language.data", degree,
                        "replicas of the language model's stages (placement own)",
                        [](auto& c) -> auto& { return c.parallel.language_data; })
                        .with({.otherwise = "parallel.data", .example = "2"})),
      placement_key(whole(
                        "parallel.language.tensor", degree,
                        "pieces of each layer of the language model (placement own)",
                        [](auto& c) -> auto& { return c.parallel.language_tensor; })
                        .with({.otherwise = "parallel.tensor", .example = "2"})),
      whole(
          "numerics.data_shards", degree,
          "logical data shards, which fix the order of sums over replicas",
          [](auto& c) -> auto& { return c.numerics.data_shards; })
          .with({.otherwise = "parallel.data, or the most that a module has", .example = "8"}),
      whole(
          "numerics.tensor_shards", degree,
          "logical tensor shards, which fix the order of sums inside layers",
          [](auto& c) -> auto& { return c.numerics.tensor_shards; })
          .with({.otherwise = "parallel.tensor", .example = "4"}),
      boolean(
          "numerics.exact", "the bits of every processor with fused multiply-add, also in bf16",
          [](auto& c) -> auto& { return c.numerics.exact; })
          .with({.otherwise = "true where it costs nothing", .example = "true"}),
      whole(
          "numerics.vision.tensor_shards", degree, "logical tensor shards of the encoder of a vlm",
          [](auto& c) -> auto& { return c.numerics.vision_tensor_shards; })
          .with({.otherwise = "numerics.tensor_shards, or without it parallel.vision.tensor",
                 .example = "1"}),
  };
}

}  // namespace cleave::train
