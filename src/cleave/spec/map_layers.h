#pragma once

#include <cstdint>
#include <string>

#include "cleave/spec/layers.h"
#include "cleave/spec/map_spec.h"

namespace cleave::spec {

// Layers on images that keep their place, as those in layers.h. A row of the flow is an image, with
// its channels side by side: [samples, height · width · channels].

/// kind "pad": a margin of `by` pixels of zeros.
LayerSpec pad(const std::string& name, const Flow& flow, const MapShape& map, std::int64_t by);

/// kind "upsample": every pixel becomes a square of `by` x `by`.
LayerSpec upsample(const std::string& name, const Flow& flow, const MapShape& map, std::int64_t by);

/// kind "mean_pixels": x [samples, pixels · channels] -> y [samples, channels].
LayerSpec mean_pixels(const std::string& name, const Flow& flow, const MapShape& map);

/// kind "group_norm": over the pixels of groups of neighbouring channels; parameters weight, bias
/// [channels].
LayerSpec group_norm(const std::string& name, const Flow& flow, const MapShape& map,
                     const GroupAttributes& groups);

}  // namespace cleave::spec
