#pragma once

#include <cstdint>
#include <string>

#include "cleave/spec/layers.h"

namespace cleave {

/// What a layer of kind "attention_pool" needs to know.
struct PoolAttributes {
  std::int64_t sequence = 0;  ///< rows of each sequence
  std::int64_t heads = 0;

  friend bool operator==(const PoolAttributes&, const PoolAttributes&) = default;
};

namespace spec {

// Layers of models that hold images and texts against each other, as those in layers.h. A flow
// counts a sample as a sequence.

/// kind "unit_rows": each row divided by its length. x [tokens, features] -> y f32 [tokens,
/// features].
LayerSpec unit_rows(const std::string& name, const Flow& flow, std::int64_t features);

/// kind "last_row": the last row of each sequence. x [sequences · sequence, features] ->
/// y [sequences, features].
LayerSpec last_row(const std::string& name, const Flow& flow, std::int64_t features);

/// kind "picked_row": one row of each sequence, the number of which (counted through all rows) is
/// read at port "ends", i32 [sequences]. x [sequences · sequence, features] -> y [sequences,
/// features].
LayerSpec picked_row(const std::string& name, const Flow& flow, std::int64_t features);

/// kind "attention_pool": a learned query attends to all rows of a sequence. x [sequences ·
/// sequence, 2 · features] holds keys and values -> y [sequences, features]. Parameters: the probe
/// [1, features], and what makes the query of it, weight [features, features] and bias [features],
/// the first third of the tensors `in_proj` + "weight" and + "bias".
struct PoolLayerShape {
  std::int64_t features = 0;
  std::int64_t heads = 0;
  std::string probe_name = {};
  std::string in_proj = {};  ///< up to and with the last _ of its names
};
LayerSpec attention_pool(const std::string& name, const Flow& flow, const PoolLayerShape& shape);

/// What pairs of a step are held against: each image against all texts, each text against all
/// images.
struct PairShape {
  std::int64_t features = 0;
  std::int64_t samples = 0;     ///< of a step
  std::string scale_name = {};  ///< of the parameter [1] whose exponential multiplies the products
  std::string bias_name = {};   ///< of the parameter [1] that is added; sigmoid only
};

/// kind "contrastive_loss", per step: x f32 [sequences, 2 · features] holds the unit rows of an
/// image and of its text -> y f32 [sequences]: for both, the cross-entropy of being found among all
/// of the step, halved (CLIP, Radford et al., 2021).
LayerSpec contrastive_loss(const std::string& name, const Flow& flow, const PairShape& shape);

/// kind "sigmoid_loss", per step: likewise, with one yes or no for every image and text (SigLIP).
LayerSpec sigmoid_loss(const std::string& name, const Flow& flow, const PairShape& shape);

}  // namespace spec
}  // namespace cleave
