#include "cleave/plan/tune/layout.h"

#include <algorithm>
#include <functional>
#include <numeric>

#include "cleave/base/check.h"

namespace cleave::plan {

using schedule::Recompute;

std::vector<int> Layout::replicas_of_stages() const {
  if (!replicas_differ()) return {};
  std::vector<int> replicas(static_cast<std::size_t>(pipeline), data / copies());
  std::fill_n(replicas.begin(), encoder_stages, encoder_data / copies());
  return replicas;
}

int Layout::places() const {
  const std::vector<int> replicas = replicas_of_stages();
  return replicas.empty() ? pipeline : std::accumulate(replicas.begin(), replicas.end(), 0);
}

Mesh Layout::mesh() const {
  Mesh mesh{.data = copies(),
            .pipeline = places(),
            .tensor = tensor,
            .order = order,
            .last_first = last_first};
  if (!degrees_differ()) return mesh;
  std::vector<int> replicas = replicas_of_stages();
  if (replicas.empty()) replicas.assign(static_cast<std::size_t>(pipeline), 1);
  for (int stage = 0; stage < pipeline; ++stage)
    mesh.degrees.insert(mesh.degrees.end(),
                        static_cast<std::size_t>(replicas[static_cast<std::size_t>(stage)]),
                        stage < encoder_stages ? encoder_tensor : tensor);
  return mesh;
}

Recompute recompute_of(const Layout& layout, std::size_t block) {
  const std::vector<Recompute>& kinds = layout.recompute;
  if (kinds.empty()) return Recompute::None;
  return kinds.size() == 1 ? kinds[0] : kinds[block];
}

int degree_of_saving(const Layout& layout) {
  int most = 0;
  for (const Recompute kind : layout.recompute) most = std::max(most, static_cast<int>(kind));
  return layout.zero + most;
}

std::string_view to_string(Recompute recompute) {
  switch (recompute) {
    case Recompute::None:
      return "none";
    case Recompute::Selective:
      return "selective";
    case Recompute::Full:
      return "full";
  }
  return "";
}

std::string_view recompute_name(const Layout& layout) {
  const std::vector<Recompute>& kinds = layout.recompute;
  const bool differ = std::ranges::adjacent_find(kinds, std::not_equal_to()) != kinds.end();
  return differ ? "by layer" : to_string(recompute_of(layout));
}

std::string to_string(const Layout& layout) {
  return detail::concat("tp=", layout.tensor, ",pp=", layout.pipeline, ",dp=", layout.data,
                        ",microbatch=", layout.microbatch, ",chunks=", layout.chunks,
                        ",schedule=", layout.schedule, ",zero=", layout.zero,
                        ",recompute=", recompute_name(layout),
                        ",sequence_parallel=", layout.sequence_parallel ? "true" : "false");
}

}  // namespace cleave::plan
