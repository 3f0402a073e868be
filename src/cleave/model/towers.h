#pragma once

#include <string>

#include "cleave/model/model_shape.h"
#include "cleave/spec/attention_spec.h"
#include "cleave/spec/graph.h"
#include "cleave/spec/layers.h"

namespace cleave::model {

/// What models with towers have in common: one reads images, another perhaps texts. `prefix` stands
/// before the names of a tower.

SegmentSpec image_tower_block(const ModelShape& shape, const spec::Flow& rows,
                              const std::string& prefix, std::int64_t index);
SegmentSpec text_tower_block(const ModelShape& shape, const spec::Flow& rows, AttentionMask mask,
                             std::int64_t index);

/// Tokens with learned positions.
SegmentSpec text_tower_embedding(const ModelShape& shape, const spec::Flow& rows);

/// Patches become rows, as a convolution whose stride is its size would have it.
LayerSpec patch_rows(const ModelShape& shape, const spec::Flow& rows, const std::string& prefix,
                     Bias bias);

/// Two towers, each of which ends in a row of features for a sample, and a loss that holds
/// the features of both against those of all samples of a step.
struct Towers {
  std::vector<SegmentSpec> image;
  std::vector<SegmentSpec> text;
  LayerSpec loss;
  std::int64_t features = 0;
};
Graph pair_up(const ModelShape& shape, const spec::Flow& flow, Towers towers);

/// Throws UserError unless the tower of images makes sense.
void check_image_tower(const ModelShape& shape);

/// The same of a model with two towers.
void check_towers(const ModelShape& shape);

}  // namespace cleave::model
