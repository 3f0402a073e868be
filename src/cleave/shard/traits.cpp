#include "cleave/shard/traits.h"

#include <algorithm>

#include "cleave/base/check.h"
#include "cleave/shard/parameter_cut.h"
#include "cleave/spec/layers.h"
#include "cleave/spec/lora.h"

namespace cleave::shard {
namespace {

using spec::Flow;

Flow rows_of(const LayerSpec& layer) {
  return {.sequence = layer.x.shape[0], .dtype = layer.y.dtype};
}

std::optional<LayerShard> cut_linear(const LayerSpec& whole, const ShardNumber& shard) {
  const ParameterSpec& weight = whole.parameters[0];
  const auto& linear = whole.as<LinearAttributes>();
  if (weight.cut.rule != CutRule::Column && weight.cut.rule != CutRule::Row) return std::nullopt;
  const bool columns = weight.cut.rule == CutRule::Column;
  const int out = linear.weight == Transpose::Yes ? 0 : 1;
  const ParameterSpec part = cut_parameter(weight, shard);
  LayerShard cut;
  cut.reads = columns ? ShardReads::All : ShardReads::Own;
  cut.gives = columns ? ShardGives::Own : ShardGives::Addend;
  cut.layer = spec::linear(shard_name(whole.name, shard.local), rows_of(whole),
                           {.in = part.shape[1 - out],
                            .out = part.shape[out],
                            .weight = linear.weight,
                            .bias = columns ? linear.bias : Bias::None});
  cut.layer.parameters = {part};
  if (columns) cut.shared = shared_columns(weight, shard);
  if (linear.bias == Bias::Add) {
    if (columns) {
      cut.layer.parameters.push_back(cut_parameter(whole.parameters[1], shard));
    } else {
      cut.added = {.what = AfterSum::Bias, .parameter = whole.parameters[1]};
    }
  }
  return cut;
}

/// Where a tensor of a weight begins in the y of its layer.
std::int64_t column_of(const std::string& tensor, const LayerSpec& linear) {
  const int out = linear.as<LinearAttributes>().weight == Transpose::Yes ? 0 : 1;
  const auto& pieces = linear.parameters[0].pieces;
  const auto piece = std::ranges::find(pieces, tensor, &Piece::name);
  CLEAVE_CHECK(piece != pieces.end(), linear.name, " has nothing of ", tensor);
  return piece->dim == out ? piece->first : 0;
}

std::optional<LayerShard> cut_lora_linear(const LayerSpec& whole, const ShardNumber& shard) {
  const LayerSpec linear = linear_in(whole);
  std::optional<LayerShard> cut = cut_linear(linear, shard);
  if (!cut) return std::nullopt;
  std::vector<LoraTarget> targets = whole.as<LoraLinearAttributes>().targets;
  std::vector<ParameterSpec> ups;
  for (std::size_t t = 0; t < targets.size(); ++t) {
    targets[t].column = column_of(targets[t].tensor, cut->layer);
    ups.push_back(cut_parameter(whole.parameters[linear.parameters.size() + t], shard));
  }
  leave_out_weight_pass(cut->layer);
  cut->layer = spec::lora_linear(cut->layer, targets, ups);
  return cut;
}

std::optional<LayerShard> cut_lora_row(const LayerSpec& whole, const ShardNumber& shard) {
  std::optional<LayerShard> cut = cut_linear(linear_in(whole), shard);
  if (!cut) return std::nullopt;
  leave_out_weight_pass(cut->layer);
  cut->layer = spec::lora_row(cut->layer, cut_parameter(whole.parameters[1], shard));
  return cut;
}

std::optional<LayerShard> cut_attention(const LayerSpec& whole, const ShardNumber& shard) {
  AttentionAttributes attributes = whole.as<AttentionAttributes>();
  AttentionShape& shape = attributes.shape;
  if (shape.heads % shard.of != 0) return std::nullopt;
  shape.heads /= shard.of;
  shape.kv_heads = std::max<std::int64_t>(1, shape.kv_heads / shard.of);
  return LayerShard{
      .layer = spec::attention(shard_name(whole.name, shard.local), rows_of(whole), attributes)};
}

std::optional<LayerShard> cut_features(const LayerSpec& whole, const ShardNumber& shard) {
  if (whole.y.shape[1] % shard.of != 0) return std::nullopt;
  LayerShard cut{.layer = whole};
  cut.layer.name = shard_name(whole.name, shard.local);
  for (TensorSpec* tensor : {&cut.layer.x, &cut.layer.y}) {
    tensor->shape = tensor->shape.with(1, tensor->shape[1] / shard.of);
  }
  return cut;
}

std::optional<LayerShard> cut_embedding(const LayerSpec& whole, const ShardNumber& shard) {
  const ParameterSpec& table = whole.parameters[0];
  if (table.cut.rule != CutRule::Vocabulary) return std::nullopt;
  const auto& embedding = whole.as<EmbeddingAttributes>();
  const ParameterSpec part = cut_parameter(table, shard);
  const std::int64_t entries = table.shape[0];
  LayerShard cut{.layer = whole, .reads = ShardReads::All, .gives = ShardGives::Addend};
  cut.layer.name = shard_name(whole.name, shard.local);
  cut.layer.parameters = {part};
  cut.layer.attributes =
      EmbeddingAttributes{.sequence = embedding.sequence,
                          .first = vocabulary_border(entries, shard.index, shard.of),
                          .vocabulary = entries,
                          .scale = embedding.scale,
                          .still = embedding.still};
  if (whole.parameters.size() > 1) {
    cut.added = {.what = AfterSum::Positions,
                 .parameter = whole.parameters[1],
                 .sequence = embedding.sequence};
  }
  return cut;
}

/// The tensors for fewer rows; nothing else of the layer depends on them.
LayerSpec fewer_rows(const LayerSpec& whole, std::int64_t rows) {
  LayerSpec layer = whole;
  layer.x.shape = layer.x.shape.with(0, rows);
  layer.y.shape = layer.y.shape.with(0, rows);
  for (ReadTensor& read : layer.reads) read.tensor.shape = read.tensor.shape.with(0, rows);
  return layer;
}

LayerSpec layernorm_of_rows(const LayerSpec& whole, std::int64_t rows) {
  return spec::layernorm(whole.name, {.sequence = rows, .dtype = whole.y.dtype}, whole.x.shape[1],
                         whole.as<NormAttributes>().epsilon);
}

LayerSpec rmsnorm_of_rows(const LayerSpec& whole, std::int64_t rows) {
  const auto& attributes = whole.as<NormAttributes>();
  return spec::rmsnorm(whole.name, {.sequence = rows, .dtype = whole.y.dtype}, whole.x.shape[1],
                       attributes.epsilon, attributes.form);
}

}  // namespace

LayerTraits linear_traits() {
  return {.cut = cut_linear};
}
LayerTraits lora_linear_traits() {
  return {.cut = cut_lora_linear};
}
LayerTraits lora_row_traits() {
  return {.cut = cut_lora_row};
}
LayerTraits lora_down_traits() {
  return {.with_rows = [](const LayerSpec& whole, std::int64_t rows) {
    return spec::lora_down(whole.name, Flow{.sequence = rows, .dtype = whole.x.dtype},
                           whole.parameters[0], whole.as<LoraDownAttributes>().scale);
  }};
}
LayerTraits lora_up_traits() {
  return {.with_rows = [](const LayerSpec& whole, std::int64_t rows) {
    return spec::lora_up(whole.name, Flow{.sequence = rows, .dtype = whole.x.dtype},
                         whole.parameters, whole.as<LoraUpAttributes>().scale);
  }};
}
LayerTraits attention_traits() {
  return {.cut = cut_attention};
}
LayerTraits activation_traits() {
  return {.cut = cut_features, .with_rows = fewer_rows};
}
LayerTraits layernorm_traits() {
  return {.with_rows = layernorm_of_rows};
}
LayerTraits rmsnorm_traits() {
  return {.with_rows = rmsnorm_of_rows};
}
LayerTraits residual_traits() {
  return {.with_rows = fewer_rows};
}
LayerTraits embedding_traits() {
  return {.cut = cut_embedding};
}
LayerTraits loss_traits() {
  return {
      .share = [](const LayerSpec& whole, const TensorShare& share) -> std::optional<LayerSpec> {
        if (whole.parameters[0].cut.rule != CutRule::Vocabulary) return std::nullopt;
        return sharded_loss(whole, share);
      }};
}

}  // namespace cleave::shard
