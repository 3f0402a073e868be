#pragma once

#include <array>
#include <string_view>

#include "cleave/model/model_shape.h"

namespace cleave::model {

/// A key of ModelShape that some families do not read.
struct ShapeKey {
  std::string_view name;  ///< as configs have it
  /// Whether a shape says nothing there.
  bool (*is_left_out)(const ModelShape& shape) = nullptr;
};

template <auto key>
constexpr ShapeKey shape_key(std::string_view name) {
  return {name, [](const ModelShape& shape) { return shape.*key == ModelShape{}.*key; }};
}

inline constexpr ShapeKey kLocalRopeTheta =
    shape_key<&ModelShape::local_rope_theta>("model.local_rope_theta");
inline constexpr ShapeKey kAttentionBias =
    shape_key<&ModelShape::attention_bias>("model.attention_bias");

/// Of models whose layers with a window turn as the others do.
inline constexpr std::array kUnreadByDecoders = {kLocalRopeTheta};
/// Of those in which the family decides which projections have a bias.
inline constexpr std::array kUnreadByDecodersOfFixedBias = {kLocalRopeTheta, kAttentionBias};

/// Of models without rotary positions, whose heads are as wide as divide their width.
inline constexpr std::array kUnreadWithoutRotation = {
    kLocalRopeTheta,
    kAttentionBias,
    shape_key<&ModelShape::mlp_bias>("model.mlp_bias"),
    shape_key<&ModelShape::rope_theta>("model.rope_theta"),
    shape_key<&ModelShape::rope_scaling>("model.rope_scaling"),
    shape_key<&ModelShape::nope_every>("model.nope_every"),
    shape_key<&ModelShape::nope_layers>("model.nope_layers"),
    shape_key<&ModelShape::head_dim>("model.head_dim"),
    shape_key<&ModelShape::rotary_dim>("model.rotary_dim"),
    shape_key<&ModelShape::attention_scale>("model.attention_scale"),
    shape_key<&ModelShape::window>("model.window"),
    shape_key<&ModelShape::window_from>("model.window_from"),
    shape_key<&ModelShape::full_every>("model.full_every"),
    shape_key<&ModelShape::full_layers>("model.full_layers")};

}  // namespace cleave::model
