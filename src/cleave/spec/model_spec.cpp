#include "cleave/spec/model_spec.h"

#include <algorithm>

#include "cleave/base/check.h"
#include "cleave/spec/block_spec.h"
#include "cleave/spec/sharded.h"

namespace cleave {
namespace {

using spec::Flow;

// Of one tensor; its bytes, times the microbatches alive, are still counted exactly.
constexpr double kMostElements = 1e14;

/// Nothing outlives F where there is no backward.
void drop_backward(ModelSpec& model) {
  for (SegmentSpec& segment : model.segments) {
    for (LayerSpec& layer : segment.layers) {
      layer.x_until = layer.y_until = Until::Forward;
      for (KeptTensor& kept : layer.kept_by_forward) kept.until = Until::Forward;
      layer.kept_by_input.clear();
      layer.backward_input.clear();
      layer.backward_weight.clear();
    }
  }
}

/// Where the two architectures differ outside their blocks.
struct Names {
  std::string tokens;
  std::string positions;
  std::string norm;
};

Names names_of(ModelKind kind) {
  if (kind == ModelKind::Gpt) {
    return {"transformer.wte.weight", "transformer.wpe.weight", "transformer.ln_f"};
  }
  return {"model.embed_tokens.weight", "", "model.norm"};
}

}  // namespace

void check(const ModelShape& shape, const Flow& flow, const TensorShare& share) {
  const double widest = static_cast<double>(std::max({3 * shape.hidden, shape.ffn, shape.vocab}));
  const double tokens = static_cast<double>(flow.sequences) * static_cast<double>(flow.sequence);
  require(widest * tokens <= kMostElements, "a microbatch of ", flow.sequences, " x ",
          flow.sequence, " tokens, each with up to ", widest,
          " values, is more than can be planned for; make train.microbatch or train.sequence "
          "smaller");
  const auto divides = [&](std::string_view what, std::int64_t size) {
    require(size % share.shards == 0, what, " ", size, " cannot be divided among ", share.shards,
            " tensor shards; choose numerics.tensor_shards (or parallel.tensor) that divides it");
  };
  divides("model.heads", shape.heads);
  divides("model.ffn", shape.ffn);
  divides("train.microbatch x train.sequence =", flow.tokens());
  require(shape.kv_heads % share.shards == 0 || share.shards % shape.kv_heads == 0,
          "model.kv_heads ", shape.kv_heads, " and ", share.shards,
          " tensor shards do not fit: one must divide the other; change numerics.tensor_shards");
  require(shape.vocab >= share.shards, "model.vocab ", shape.vocab, " has less than one entry for ",
          share.shards, " tensor shards; use fewer");
}

ModelSpec model_spec(const ModelShape& shape, const Flow& flow, std::int64_t loss_blocks,
                     const TensorShare& share) {
  check(shape);
  check(shape, flow, share);
  require(flow.sequence <= shape.context, "train.sequence ", flow.sequence,
          " is longer than model.context ", shape.context,
          "; shorten the sequence or raise model.context");
  require(loss_blocks >= 1 && loss_blocks <= shape.vocab, "train.loss_blocks ", loss_blocks,
          " must be between 1 and the vocabulary ", shape.vocab);

  require(share.whole() || loss_blocks == 1, "a loss in ", loss_blocks,
          " blocks cannot be cut into tensor shards; use one block");
  const bool gpt = shape.kind == ModelKind::Gpt;
  const Names names = names_of(shape.kind);
  ModelSpec model{shape, flow, loss_blocks, share, {}};
  model.segments.push_back(
      {"embedding",
       {spec::model_embedding(shape, flow, share, {names.tokens, gpt ? names.positions : ""})}});
  for (std::int64_t i = 0; i < shape.layers; ++i) {
    model.segments.push_back(spec::block(shape, flow, share, i));
  }
  const std::string tied_to = shape.tie_embeddings ? names.tokens : "";
  model.segments.push_back({"head",
                            {spec::residual_norm(shape, flow, share, names.norm),
                             share.whole() ? spec::loss("head", flow,
                                                        {.vocabulary = shape.vocab,
                                                         .features = shape.hidden,
                                                         .blocks = loss_blocks,
                                                         .weight_name = "lm_head.weight",
                                                         .tied_to = tied_to})
                                           : spec::sharded_loss("head", flow, share,
                                                                {.vocabulary = shape.vocab,
                                                                 .features = shape.hidden,
                                                                 .weight = "lm_head.weight",
                                                                 .tied_to = tied_to})}});
  if (flow.cache > 0) drop_backward(model);
  return model;
}

std::int64_t parameter_count(const ModelSpec& model) {
  std::int64_t count = 0;
  for (const SegmentSpec& segment : model.segments) count += parameter_count(segment);
  return count;
}

std::int64_t flops(const ModelSpec& model) {
  std::int64_t count = 0;
  for (const SegmentSpec& segment : model.segments) count += flops(segment);
  return count;
}

}  // namespace cleave
