#include "cleave/spec/map_layers.h"

#include "cleave/spec/layer_parts.h"

namespace cleave::spec {

LayerSpec pad(const std::string& name, const Flow& flow, const MapShape& map, std::int64_t by) {
  const MapShape large{map.height + 2 * by, map.width + 2 * by, map.channels};
  LayerSpec spec = sequence_layer("pad", name, flow, map.values(), large.values());
  spec.attributes = MapAttributes{map, by};
  return spec;
}

LayerSpec upsample(const std::string& name, const Flow& flow, const MapShape& map,
                   std::int64_t by) {
  LayerSpec spec = sequence_layer("upsample", name, flow, map.values(), map.values() * by * by);
  spec.attributes = MapAttributes{map, by};
  return spec;
}

LayerSpec mean_pixels(const std::string& name, const Flow& flow, const MapShape& map) {
  return sequence_layer("mean_pixels", name, flow, map.values(), map.channels);
}

LayerSpec group_norm(const std::string& name, const Flow& flow, const MapShape& map,
                     const GroupAttributes& groups) {
  LayerSpec spec = sequence_layer("group_norm", name, flow, map.values(), map.values());
  spec.x_until = Until::Weight;
  spec.dy_until = Until::Weight;
  spec.parameters = {vector_parameter(name + ".weight", map.channels, 1),
                     vector_parameter(name + ".bias", map.channels, 0)};
  for (const char* statistic : {"mean", "rstd"})
    spec.kept_by_forward.push_back(
        {{statistic, DType::F32, {flow.sequences, groups.groups}}, Until::Weight});
  spec.attributes = groups;
  return spec;
}

}  // namespace cleave::spec
