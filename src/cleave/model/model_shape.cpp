#include "cleave/model/model_shape.h"

#include <algorithm>
#include <cmath>
#include <string_view>

#include "cleave/base/check.h"
#include "cleave/model/family.h"
#include "cleave/model/shape_keys.h"

namespace cleave {
namespace {

// Far above any model, far below where products of two sizes overflow.
constexpr std::int64_t kLargest = std::int64_t{1} << 31;

void check_size(std::string_view name, std::int64_t size) {
  require(size >= 1 && size < kLargest, "model.", name, " is ", size,
          "; it must be at least 1 and below 2^31");
}

// Deeper than any model, and few enough to list.
constexpr std::int64_t kMostLayers = 10000;
// Whose bytes, times whatever is held per parameter, are still counted exactly.
constexpr double kMostParameters = 1e15;

/// Weights of the matrices of blocks of this shape, about, without overflow.
double parameters_of_blocks(std::int64_t layers, double hidden, double attended, double ffn) {
  return static_cast<double>(layers) * hidden * (2 * attended + 3 * ffn);
}

/// Weights of the matrices, about, without overflow.
double parameters_about(const ModelShape& s) {
  const auto real = [](std::int64_t size) { return static_cast<double>(size); };
  const double hidden = real(s.hidden);
  const double attended = (real(s.heads) + real(s.kv_heads)) * real(s.head_size());
  const VisionShape& v = s.vision;
  const double wide = real(v.hidden);
  const double rows = s.patch > 0 ? real(s.patches()) + real(s.patch_values()) : 0;
  const double squares = std::max(1.0, real(s.shuffle) * real(s.shuffle));
  return parameters_of_blocks(s.layers, hidden, attended, real(s.ffn)) +
         parameters_of_blocks(v.layers, wide, 2 * wide, real(v.ffn)) +
         hidden * (2 * real(s.vocab) + real(s.context) + real(s.classes) + real(s.features)) +
         std::max(hidden, wide) * (rows + real(s.features)) +
         real(v.deepstack.count + 1) * hidden * (squares * wide + (wide > 0 ? hidden : 0));
}

void check_depth(std::string_view name, std::int64_t layers) {
  require(layers <= kMostLayers, "model.", name, " is ", layers, "; at most ", kMostLayers,
          " can be planned for");
}

void check_layers_of(const ModelShape& s) {
  require(s.head_dim >= 0 && s.head_dim < kLargest, "model.head_dim is ", s.head_dim,
          "; it must be at least 1 and below 2^31, or left out");
  require(s.pad_token >= -1 && s.pad_token < std::max<std::int64_t>(1, s.vocab),
          "model.pad_token is ", s.pad_token, "; it must be one of the ", s.vocab,
          " tokens of model.vocab, or -1 for none");
  require(s.pad_token < 0 || (s.kind->reads_tokens && !s.kind->pairs), "model.pad_token is ",
          s.pad_token, ", and a ", s.kind->name, " has no such token; leave it out");
  require(s.heads * s.head_size() < kLargest, "model.heads ", s.heads, " of model.head_dim ",
          s.head_size(), " are ", s.heads * s.head_size(), " wide; it must be below 2^31");
  require(s.rotary_dim >= 0 && s.rotary_dim % 2 == 0 && s.rotary_dim <= s.head_size(),
          "model.rotary_dim is ", s.rotary_dim, "; it must be even and at most the ", s.head_size(),
          " elements of a head");
  require(s.window > 0 || (s.window_from == 0 && s.full_every == 0 && s.full_layers.empty()),
          "model.window_from, full_every and full_layers say which layers have a window, but there "
          "is no model.window; set it, or leave them out");
  for (const LayerSet& set : {s.full_layers, s.nope_layers}) {
    for (const std::int64_t layer : set) {
      require(layer < s.layers, "model.full_layers and model.nope_layers have layer ", layer,
              ", but the last of model.layers ", s.layers, " is ", s.layers - 1,
              "; leave it out, or count from 0");
    }
  }
}

// Far above what any model has, and exact enough where rotary positions are computed in f32.
constexpr double kLargestNumber = 1e30;

void check_theta(std::string_view name, double theta) {
  require(theta > 1 && theta <= kLargestNumber, "model.", name, " is ", theta,
          "; it must be above 1 and at most 1e30, for example 10000");
}

/// The numbers of a scaling, whether its kind reads them or not.
void check_scaling(const RopeScaling& scaling) {
  const auto holds = [](std::string_view name, double number, bool ok, std::string_view rule) {
    require(ok && std::abs(number) <= kLargestNumber, "model.rope_scaling has the ", name, " ",
            number, "; it must be ", rule);
  };
  const auto above_zero = [&](std::string_view name, double number) {
    holds(name, number, number > 0, "above 0 and at most 1e30");
  };
  const bool stretches =
      scaling.kind == RopeScaling::Kind::Llama3 || scaling.kind == RopeScaling::Kind::Yarn;
  holds("factor", scaling.factor, scaling.factor >= 1, "1 or more, and at most 1e30");
  holds("original_context", scaling.original_context,
        (!stretches || scaling.original_context >= 1) &&
            scaling.original_context < static_cast<double>(kLargest),
        "the context before the scaling");
  holds("low_freq_factor", scaling.low_freq_factor, true, "a number up to 1e30");
  holds("high_freq_factor", scaling.high_freq_factor,
        scaling.high_freq_factor > scaling.low_freq_factor,
        detail::concat("above the low_freq_factor ", scaling.low_freq_factor));
  above_zero("beta_fast", scaling.beta_fast);
  above_zero("beta_slow", scaling.beta_slow);
  above_zero("attention_factor", scaling.attention_factor);
}

void check_rotation(const ModelShape& s) {
  check_theta("rope_theta", s.rope_theta);
  check_theta("local_rope_theta", s.local_rope_theta);
  check_scaling(s.rope_scaling);
  require(s.attention_scale >= 0 && s.attention_scale <= kLargestNumber,
          "model.attention_scale is ", s.attention_scale, "; it must lie between 0 and 1e30");
}

/// The divisor of `whole` nearest to `wanted`: what we suggest instead.
std::int64_t nearest_divisor(std::int64_t whole, std::int64_t wanted) {
  wanted = std::min(wanted, whole);
  for (std::int64_t away = 0; away < whole; ++away) {
    if (wanted - away >= 1 && whole % (wanted - away) == 0) return wanted - away;
    if (whole % (wanted + away) == 0) return wanted + away;
  }
  return 1;
}

void check_no_images(const ModelShape& s) {
  require(s.image == 0 && s.patch == 0 && s.channels == 0 && s.classes == 0 &&
              s.gelu == GeluForm::Exact,
          "model.image, patch, channels, classes and gelu are of models that read images, and a ",
          s.kind->name, " reads tokens; leave them out");
}

void check_no_vision(const ModelShape& s) {
  require(s.vision == VisionShape{} && s.shuffle == 0 && s.image_token == 0 && s.features == 0,
          "model.vision, model.projector and model.image_token are of models that read images and "
          "tokens, and a ",
          s.kind->name, " does not; leave them out");
}

void check_unread(const ModelShape& s) {
  for (const model::ShapeKey& key : s.kind->unread)
    require(key.is_left_out(s), key.name, " is set, and a ", s.kind->name,
            " does not read it; leave it out, or take a model.kind that does");
}

}  // namespace

void check_images(const ModelShape& s) {
  check_size("image", s.image);
  check_size("patch", s.patch);
  if (!s.kind->reads_tokens) check_size("classes", s.classes);
  require(!s.kind->reads_tokens || s.classes == 0,
          "model.classes is of models that tell classes "
          "apart, and a ",
          s.kind->name, " predicts tokens; leave it out");
  require(s.channels == 1 || s.channels == 3, "model.channels is ", s.channels,
          "; images have 1 (grey) or 3 (colours)");
  require(s.image <= 1 << 14 && s.patch <= s.image, "model.image ", s.image, " with model.patch ",
          s.patch, " makes no patches; images have up to 16384 pixels a side");
}

void check_vision_sizes(const ModelShape& s) {
  check_size("vision.layers", s.vision.layers);
  check_depth("vision.layers", s.vision.layers);
  check_size("vision.hidden", s.vision.hidden);
  check_size("vision.heads", s.vision.heads);
  check_size("vision.ffn", s.vision.ffn);
  require(s.features >= 0 && s.features < kLargest, "model.features is ", s.features,
          "; it must be below 2^31, or left out");
  require(s.shuffle >= 0 && s.shuffle <= s.image / s.patch, "model.projector.shuffle is ",
          s.shuffle, ", and an image has ", s.image / s.patch,
          " patches along a side; make it a divisor of them, or 0");
}

void check(const ModelShape& s) {
  check_unread(s);
  s.kind->reads_images ? check_images(s) : check_no_images(s);
  if (!s.kind->reads_images || !s.kind->reads_tokens) check_no_vision(s);
  check_size("layers", s.layers);
  check_size("hidden", s.hidden);
  check_size("heads", s.heads);
  check_size("kv_heads", s.kv_heads);
  check_size("ffn", s.ffn);
  check_size("vocab", s.vocab);
  check_size("context", s.context);
  check_depth("layers", s.layers);
  if (s.vision != VisionShape{}) check_vision_sizes(s);
  require(parameters_about(s) <= kMostParameters, "the model has about ", parameters_about(s),
          " parameters, more than the 1e15 that can be planned for; make model.hidden, ffn, vocab "
          "or layers smaller");
  require(s.head_dim > 0 || s.hidden % s.heads == 0, "model.hidden ", s.hidden,
          " is not divisible by model.heads ", s.heads, "; set model.heads to a divisor such as ",
          nearest_divisor(s.hidden, s.heads));
  require(s.heads % s.kv_heads == 0, "model.heads ", s.heads,
          " is not divisible by model.kv_heads ", s.kv_heads,
          "; set model.kv_heads to a divisor such as ", nearest_divisor(s.heads, s.kv_heads));
  require(s.norm_eps > 0 && s.norm_eps < 1, "model.norm_eps is ", s.norm_eps,
          "; it must lie between 0 and 1, for example 1e-5");
  check_rotation(s);
  check_layers_of(s);
  if (s.kind->check != nullptr) s.kind->check(s);
}

}  // namespace cleave
