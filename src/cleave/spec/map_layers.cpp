#include "cleave/spec/map_layers.h"

#include <utility>

namespace cleave::spec {
namespace {

LayerSpec map_layer(std::string kind, const std::string& name, const Flow& flow, std::int64_t from,
                    std::int64_t to) {
  LayerSpec spec;
  spec.kind = std::move(kind);
  spec.name = name;
  spec.x = {"x", flow.dtype, {flow.sequences, from}};
  spec.y = {"y", flow.dtype, {flow.sequences, to}};
  return spec;
}

ParameterSpec of_channels(const std::string& name, std::int64_t channels, float mean) {
  return {.name = name,
          .shape = {channels},
          .init = {mean, 0},
          .decay = Decay::No,
          .pieces = {{name, 0, channels}}};
}

}  // namespace

LayerSpec pad(const std::string& name, const Flow& flow, const MapShape& map, std::int64_t by) {
  const MapShape large{map.height + 2 * by, map.width + 2 * by, map.channels};
  LayerSpec spec = map_layer("pad", name, flow, map.values(), large.values());
  spec.attributes = MapAttributes{map, by};
  return spec;
}

LayerSpec upsample(const std::string& name, const Flow& flow, const MapShape& map,
                   std::int64_t by) {
  LayerSpec spec = map_layer("upsample", name, flow, map.values(), map.values() * by * by);
  spec.attributes = MapAttributes{map, by};
  return spec;
}

LayerSpec mean_pixels(const std::string& name, const Flow& flow, const MapShape& map) {
  return map_layer("mean_pixels", name, flow, map.values(), map.channels);
}

LayerSpec group_norm(const std::string& name, const Flow& flow, const MapShape& map,
                     const GroupAttributes& groups) {
  LayerSpec spec = map_layer("group_norm", name, flow, map.values(), map.values());
  spec.x_until = Until::Weight;
  spec.dy_until = Until::Weight;
  spec.parameters = {of_channels(name + ".weight", map.channels, 1),
                     of_channels(name + ".bias", map.channels, 0)};
  for (const char* statistic : {"mean", "rstd"})
    spec.kept_by_forward.push_back(
        {{statistic, DType::F32, {flow.sequences, groups.groups}}, Until::Weight});
  spec.attributes = groups;
  return spec;
}

}  // namespace cleave::spec
