#include "cleave/spec/lora.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <set>

#include "cleave/base/check.h"
#include "cleave/base/nearest.h"
#include "cleave/spec/trainable.h"

namespace cleave {

double Lora::scale() const {
  const auto ranks = static_cast<double>(rank);
  return alpha / (rslora ? std::sqrt(ranks) : ranks);
}

namespace {

constexpr std::string_view kWeight = ".weight";
constexpr std::string_view kDown = ".lora_A.weight";
constexpr std::string_view kUp = ".lora_B.weight";

}  // namespace

std::string module_of(const std::string& tensor) {
  return tensor.ends_with(kWeight) ? tensor.substr(0, tensor.size() - kWeight.size()) : tensor;
}

std::string lora_down_name(const std::string& tensor) {
  return module_of(tensor).append(kDown);
}

std::string lora_up_name(const std::string& tensor) {
  return module_of(tensor).append(kUp);
}

bool is_adapter(std::string_view name) {
  return name.ends_with(kDown) || name.ends_with(kUp);
}

namespace {

spec::Flow flow_of(const LayerSpec& layer) {
  return {.sequence = layer.x.shape[0], .dtype = layer.x.dtype};
}

bool is_target(const std::string& tensor, const Lora& lora) {
  return std::ranges::any_of(lora.targets, [&](const std::string& target) {
    return target == Lora::kAllLinear || pattern_names(target, tensor);
  });
}

/// Columns of a linear layer's y that one tensor of its weight makes.
struct Columns {
  std::string tensor;
  std::int64_t first = 0;
  std::int64_t extent = 0;
};

/// Which dim of the weight its pieces and its y have in common.
int out_dim(const LayerSpec& linear) {
  return linear.as<LinearAttributes>().weight == Transpose::Yes ? 0 : 1;
}

std::vector<Columns> columns_of(const LayerSpec& linear) {
  const ParameterSpec& weight = linear.parameters[0];
  if (weight.pieces.size() == 1) return {{weight.pieces[0].name, 0, linear.y.shape[1]}};
  std::vector<Columns> columns;
  for (const Piece& piece : weight.pieces) {
    CLEAVE_CHECK(piece.dim == out_dim(linear), linear.name, " is fused along its input");
    columns.push_back({piece.name, piece.first, piece.extent});
  }
  return columns;
}

/// How rows of B are cut: as the columns that they add to.
Cut cut_of_up(const ParameterSpec& weight, const Columns& columns) {
  if (weight.cut.rule != CutRule::Column) return {};
  Cut cut{.rule = CutRule::Column, .dim = 0};
  std::int64_t begin = 0;
  for (const CutSpan& span : weight.cut.spans) {
    if (begin >= columns.first && begin < columns.first + columns.extent) cut.spans.push_back(span);
    begin += span.units * span.width;
  }
  return cut;
}

/// As likely to be large as those of PEFT, which are uniform.
Init down_init(std::int64_t in) {
  return {0, static_cast<float>(1 / std::sqrt(3.0 * static_cast<double>(in)))};
}

ParameterSpec up_of(const LayerSpec& linear, const Columns& columns, std::int64_t rank) {
  const std::string name = lora_up_name(columns.tensor);
  return {.name = name,
          .shape = {columns.extent, rank},
          .decay = Decay::Yes,
          .pieces = {{name, 0, columns.extent}},
          .cut = cut_of_up(linear.parameters[0], columns)};
}

/// A of all targets of a layer, one below the other.
ParameterSpec down_of(const LayerSpec& linear, const std::vector<Columns>& targets,
                      std::int64_t rank) {
  const std::int64_t in = linear.x.shape[1];
  ParameterSpec down{.name = lora_down_name(targets[0].tensor),
                     .shape = {rank * std::ssize(targets), in},
                     .init = down_init(in),
                     .decay = Decay::Yes};
  for (const Columns& target : targets) {
    down.pieces.push_back({.name = lora_down_name(target.tensor),
                           .first = rank * std::ssize(down.pieces),
                           .extent = rank});
  }
  return down;
}

std::vector<LayerSpec> adapted_rows(LayerSpec linear, const Columns& target, const Lora& lora) {
  ParameterSpec down = down_of(linear, {target}, lora.rank);
  down.cut = {.rule = CutRule::Row, .dim = 1, .spans = linear.parameters[0].cut.spans};
  std::vector<ParameterSpec> up = {up_of(linear, target, lora.rank)};
  if (linear.parameters.size() > 1) {  // the bias is added once, after the sum over shards
    up.push_back(linear.parameters[1]);
    linear.parameters.pop_back();
    linear.attributes = LinearAttributes{linear.as<LinearAttributes>().weight, Bias::None};
    linear.forward[0].bias = Bias::None;
  }
  return {spec::lora_row(linear, down), spec::lora_up(linear.name + ".lora_up", flow_of(linear), up,
                                                      static_cast<float>(lora.scale()))};
}

/// What takes the place of `layer`; the layer itself if nothing in it is a target.
std::vector<LayerSpec> adapted(const LayerSpec& layer, const Lora& lora) {
  if (layer.kind != "linear") return {layer};
  std::vector<Columns> targets = columns_of(layer);
  std::erase_if(targets, [&](const Columns& columns) { return !is_target(columns.tensor, lora); });
  if (targets.empty()) return {layer};
  if (layer.parameters[0].cut.rule == CutRule::Row) return adapted_rows(layer, targets[0], lora);
  std::vector<LoraTarget> where;
  std::vector<ParameterSpec> ups;
  for (const Columns& target : targets) {
    where.push_back({target.tensor, target.first});
    ups.push_back(up_of(layer, target, lora.rank));
  }
  return {spec::lora_down(layer.name + ".lora_down", flow_of(layer),
                          down_of(layer, targets, lora.rank), static_cast<float>(lora.scale())),
          spec::lora_linear(layer, where, ups)};
}

void check_targets(const Graph& graph, const Lora& lora) {
  std::set<std::string> known;
  for (const SegmentSpec& segment : graph.segments) {
    for (const LayerSpec& layer : segment.layers) {
      if (layer.kind != "linear") continue;
      for (const Columns& columns : columns_of(layer)) known.insert(columns.tensor);
    }
  }
  for (const std::string& target : lora.targets) {
    const auto is_named = [&](const std::string& name) { return pattern_names(target, name); };
    if (target == Lora::kAllLinear || std::ranges::any_of(known, is_named)) continue;
    std::set<std::string> modules;  // q_proj of model.layers.0.self_attn.q_proj.weight
    for (const std::string& name : known) {
      const std::string module = name.substr(0, name.rfind('.'));
      modules.insert(module.substr(module.rfind('.') + 1));
    }
    const std::vector<std::string_view> names(modules.begin(), modules.end());
    throw UserError(detail::concat("lora.targets names \"", target,
                                   "\", and no linear layer is called so",
                                   known_are(target, names)));
  }
}

}  // namespace

std::vector<LinearTensor> linear_tensors(const Graph& graph) {
  std::vector<LinearTensor> tensors;
  for (const SegmentSpec& segment : graph.segments) {
    for (const LayerSpec& layer : segment.layers) {
      const auto* adapted = layer.attributes.get_if<LoraLinearAttributes>();
      if (adapted == nullptr && layer.kind != "linear") continue;
      const LayerSpec linear = adapted == nullptr ? layer : linear_in(layer);
      for (const Columns& columns : columns_of(linear)) {
        const bool whole = adapted != nullptr && adapted->targets.empty();
        const bool has = adapted != nullptr && std::ranges::count(adapted->targets, columns.tensor,
                                                                  &LoraTarget::tensor) > 0;
        tensors.push_back({.name = columns.tensor,
                           .in = linear.x.shape[1],
                           .out = columns.extent,
                           .stored = linear.as<LinearAttributes>().weight,
                           .adapted = whole || has});
      }
    }
  }
  return tensors;
}

void add_adapters(Graph& graph, const Lora& lora) {
  if (lora.rank == 0) return;
  check_targets(graph, lora);
  for (SegmentSpec& segment : graph.segments) {
    std::vector<LayerSpec> layers;
    std::vector<int> moved;  // where each layer of the segment begins now
    for (const LayerSpec& layer : segment.layers) {
      moved.push_back(static_cast<int>(layers.size()));
      for (LayerSpec& made : adapted(layer, lora)) layers.push_back(std::move(made));
    }
    for (LayerSpec& layer : layers) {
      if (layer.skip >= 0) layer.skip = moved[static_cast<std::size_t>(layer.skip)];
    }
    segment.layers = std::move(layers);
  }
}

}  // namespace cleave
