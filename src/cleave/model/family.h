#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "cleave/model/model_shape.h"
#include "cleave/spec/graph.h"
#include "cleave/spec/layers.h"

namespace cleave::model {

struct Preset;
struct HuggingFace;
struct ShapeKey;

/// A family of models: everything that distinguishes it from the others.
struct Family {
  std::string_view name;  ///< as model.kind has it

  /// The layers of `shape` for microbatches of `flow`; `loss_blocks` > 1 computes the loss in that
  /// many blocks of the vocabulary and keeps no logits.
  Graph (*build)(const ModelShape& shape, const spec::Flow& flow, std::int64_t loss_blocks);

  /// Throws UserError if the family has no model of this shape; what holds for all families is
  /// checked before. Null: nothing else has to hold.
  void (*check)(const ModelShape& shape) = nullptr;

  /// The width inside the feed-forward part of a model that does not say.
  std::int64_t (*default_ffn)(std::int64_t hidden);

  std::span<const Preset> presets = {};
  bool ties_embeddings = false;       ///< unless the config says otherwise
  bool learns_positions = false;      ///< it has as many positions as its context is long
  std::int64_t usual_vocabulary = 0;  ///< of its published models
  int ffn_matrices = 2;               ///< of a feed-forward part
  /// Whether the training software of 2021 has kernels for it: fused projections, plain attention.
  /// Models that came later ran there with separate projections and flash attention.
  bool known_to_early_software = false;
  /// How Hugging Face's tools know it; null: they do not.
  const HuggingFace* hugging_face = nullptr;
  bool reads_images = false;
  bool reads_tokens = true;   ///< and predicts the next; otherwise it tells classes of images apart
  bool pairs = false;         ///< it holds images and texts against each other and predicts nothing
  bool reads_pixels = false;  ///< single ones: a patch is a pixel
  /// Keys of a shape that `build` does not read; a shape that has one is refused (shape_keys.h).
  std::span<const ShapeKey> unread = {};
};

extern const Family gpt;
extern const Family llama;
extern const Family mistral;
extern const Family qwen2;
extern const Family qwen3;
extern const Family olmo2;
extern const Family phi3;
extern const Family smollm3;
extern const Family gemma3;
extern const Family vit;
extern const Family cnn;
extern const Family unet;
extern const Family vlm;
extern const Family clip;
extern const Family siglip;

/// cleave's own families, in the order help shows them.
std::span<const Family* const> families();

/// Throws UserError that lists the known names.
const Family* find_family(std::string_view name, std::span<const Family* const> known = families());

/// The graph of a model. Throws UserError if there is no such model, or the sequence exceeds its
/// context.
Graph graph_of(const ModelShape& shape, const spec::Flow& flow, std::int64_t loss_blocks = 1);

}  // namespace cleave::model
