#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "cleave/model/model_shape.h"
#include "cleave/spec/layer_spec.h"
#include "cleave/spec/layers.h"

namespace cleave::model {

/// What checkpoints call the parts of a model that reads texts with images.
struct VlmNames {
  std::string vision;     ///< before the names of the tower
  std::string projector;  ///< before those of its layers
  std::string mergers;    ///< before the number of a merger
  std::string text;       ///< in place of the "model." of a language model
  std::string head;       ///< in place of its "lm_head."
};

VlmNames vlm_names(const ModelShape& shape);

/// From patches to what the tower gives: rows without the class token, or normed ones. `rows` are
/// those inside the tower. Segment 1 + i is block i.
std::vector<SegmentSpec> vlm_tower(const ModelShape& shape, const spec::Flow& rows);

/// What the language model reads of the tower: the y of one of its segments.
struct TowerFeature {
  std::string segment;
  std::int64_t rows = 0;  ///< of an image, each as wide as the tower
};

/// What the tower gives at its end, then the layers that go through mergers.
std::vector<TowerFeature> tower_features(const ModelShape& shape);

/// In place of the tower where its features are read from the data: a segment for each, those of
/// the mergers first. The last, which the projector reads, keeps the parameters of the tower.
std::vector<SegmentSpec> vlm_kept_tower(const ModelShape& shape, const spec::Flow& rows);

/// From rows of the tower to rows of the language model.
SegmentSpec vlm_projector(const ModelShape& shape, const spec::Flow& rows);

/// The same from rows inside the tower, which are normed first: for feature `index` of those that
/// are added inside the language model.
SegmentSpec vlm_merger(const ModelShape& shape, const spec::Flow& rows, std::int64_t index);

}  // namespace cleave::model
