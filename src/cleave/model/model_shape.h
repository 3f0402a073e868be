#pragma once

#include <array>
#include <cstdint>

#include "cleave/model/layer_set.h"
#include "cleave/model/rope_scaling.h"
#include "cleave/spec/gelu_form.h"

namespace cleave {

namespace model {
struct Family;
extern const Family gpt;
}  // namespace model

/// A few layers of a tower, by their numbers from 0; as plain data, so that presets may have them.
struct FeatureLayers {
  static constexpr std::int64_t kMost = 16;
  std::array<std::int64_t, kMost> numbers = {};
  std::int64_t count = 0;  ///< may exceed kMost until the shape is checked

  constexpr void push_back(std::int64_t layer) {
    if (count < kMost) numbers[static_cast<std::size_t>(count)] = layer;
    ++count;
  }
  constexpr bool empty() const { return count == 0; }
  constexpr const std::int64_t* begin() const { return numbers.data(); }
  constexpr const std::int64_t* end() const {
    return numbers.data() + (count < kMost ? count : kMost);
  }

  friend bool operator==(const FeatureLayers&, const FeatureLayers&) = default;
};

/// The part of a model that reads images and tokens which turns patches into rows.
struct VisionShape {
  std::int64_t layers = 0;
  std::int64_t hidden = 0;
  std::int64_t heads = 0;
  std::int64_t ffn = 0;
  double norm_eps = 1e-5;
  /// As in CLIP: a class token and a norm before the blocks; the rows of the layer before the last
  /// are taken, without the class token's. Otherwise as in SigLIP: neither, and a norm at the end.
  bool class_token = true;
  /// Layers whose rows go through a merger each and are added to the text after the language
  /// layers 0, 1, … (DeepStack: Meng et al., 2024).
  FeatureLayers deepstack = {};
  /// What it gives is read from the data, and its parameters are only kept.
  bool cached = false;

  /// Where it is computed.
  constexpr std::int64_t computed_layers() const { return class_token ? layers - 1 : layers; }

  friend bool operator==(const VisionShape&, const VisionShape&) = default;
};

/// Everything that decides a model's parameters and arithmetic; no batch, no layout. What a family
/// does not read, it says in Family::unread.
struct ModelShape {
  const model::Family* kind = &model::gpt;
  std::int64_t layers = 0;
  std::int64_t hidden = 0;
  std::int64_t heads = 0;
  std::int64_t kv_heads = 0;  ///< fewer than heads: grouped-query attention
  std::int64_t ffn = 0;       ///< width inside the feed-forward part
  std::int64_t vocab = 0;
  std::int64_t context = 0;  ///< longest sequence, and rows of a learned table of positions
  /// A token whose embedding learns nothing by being read, as PyTorch keeps that of padding; -1:
  /// none.
  std::int64_t pad_token = -1;
  bool tie_embeddings = true;
  double norm_eps = 1e-5;
  double rope_theta = 10000;  ///< of rotary positions
  RopeScaling rope_scaling = {};
  double local_rope_theta = 10000;  ///< of layers with a window, where a family has one of its own
  std::int64_t nope_every = 0;      ///< every n-th layer has no rotary positions; 0: all have them
  LayerSet nope_layers = {};        ///< nor have these
  std::int64_t head_dim = 0;        ///< 0: hidden / heads
  std::int64_t rotary_dim = 0;      ///< elements of a head that turn; 0: all
  double attention_scale = 0;       ///< of the products of q and k; 0: 1/√head_size()
  std::int64_t window = 0;          ///< tokens that a token sees in layers with a window; 0: all
  std::int64_t window_from = 0;     ///< first layer with a window
  std::int64_t full_every = 0;      ///< every n-th layer has no window all the same; 0: none
  LayerSet full_layers = {};        ///< nor have these
  bool attention_bias = false;      ///< of the projections around attention
  bool mlp_bias = false;            ///< of those of the feed-forward part
  std::int64_t image = 0;           ///< pixels of a side of the images that the model reads
  std::int64_t patch = 0;           ///< pixels of a side of the squares that images are cut into
  std::int64_t channels = 0;        ///< of a pixel
  std::int64_t classes = 0;         ///< that images are told apart by
  GeluForm gelu = GeluForm::Exact;  ///< of models that read images
  VisionShape vision = {};          ///< of models that read images and tokens
  /// Patches along a side of the squares that the projector makes one row of; 0: each patch is one.
  std::int64_t shuffle = 0;
  std::int64_t image_token = 0;  ///< what stands in a text where the rows of an image are
  std::int64_t features = 0;     ///< by which images and texts are held against each other

  std::int64_t head_size() const { return head_dim > 0 ? head_dim : hidden / heads; }
  /// Whether a layer, counted from 0, sees only the last `window` tokens.
  bool has_window(std::int64_t layer) const {
    return window > 0 && layer >= window_from &&
           !(full_every > 0 && (layer + 1) % full_every == 0) && !full_layers.contains(layer);
  }
  /// Whether rotary positions turn q and k of a layer, counted from 0.
  bool has_rope(std::int64_t layer) const {
    return !(nope_every > 0 && (layer + 1) % nope_every == 0) && !nope_layers.contains(layer);
  }

  /// What parallel.partition and parallel.recompute count as layers.
  constexpr std::int64_t blocks() const {
    if (vision.layers == 0 || vision.cached) return layers;
    const bool all = features > 0;  // a tower that ends in features runs all of its layers
    return layers + (all ? vision.layers : vision.computed_layers());
  }

  constexpr std::int64_t patches() const { return (image / patch) * (image / patch); }
  /// Tokens that an image takes the place of.
  constexpr std::int64_t image_rows() const {
    return shuffle == 0 ? patches() : patches() / (shuffle * shuffle);
  }
  constexpr std::int64_t patch_values() const { return channels * patch * patch; }

  friend bool operator==(const ModelShape&, const ModelShape&) = default;
};

/// Throws UserError unless the keys of models that read images make sense.
void check_images(const ModelShape& shape);

/// Throws UserError unless a tower of images beside a language model has sizes that can be planned
/// for, and so has what joins them.
void check_vision_sizes(const ModelShape& shape);

/// Throws UserError, naming the value, the rule and the remedy, if no model has this shape.
void check(const ModelShape& shape);

}  // namespace cleave
