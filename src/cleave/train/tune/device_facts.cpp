#include "cleave/train/tune/device_facts.h"

#include <cmath>

namespace cleave::train {

plan::LinkCosts DeviceFacts::slower(plan::LinkCosts so_far, int from, int to) const {
  if (from == to) return so_far;
  const auto devices = static_cast<std::size_t>(std::lround(std::sqrt(links.size())));
  const plan::LinkCosts& link = links.at(static_cast<std::size_t>(from) * devices + to);
  return plan::slower(so_far, link);
}

plan::LinkCosts DeviceFacts::between(const Mesh& mesh, int from, int to) const {
  plan::LinkCosts slowest;
  for (int number = 0; number < mesh.tensor; ++number)
    slowest =
        slower(slowest, mesh.device_at(PlaceId{from}, number), mesh.device_at(PlaceId{to}, number));
  return slowest;
}

plan::LinkCosts DeviceFacts::within_places(const Mesh& mesh) const {
  plan::LinkCosts slowest;
  for (PlaceId place{0}; place < mesh.places(); ++place) {
    for (int a = 0; a < mesh.tensor; ++a)
      for (int b = 0; b < a; ++b)
        slowest = slower(slowest, mesh.device_at(place, b), mesh.device_at(place, a));
  }
  return slowest;
}

plan::LinkCosts DeviceFacts::among_replicas(const Mesh& mesh) const {
  plan::LinkCosts slowest;
  for (int place = 0; place < mesh.pipeline; ++place) {
    for (int a = 0; a < mesh.data; ++a)
      for (int b = 0; b < a; ++b)
        slowest = plan::slower(slowest,
                               between(mesh, place + b * mesh.pipeline, place + a * mesh.pipeline));
  }
  return slowest;
}

}  // namespace cleave::train
