#include "cleave/plan/tune/analytic/cluster_search.h"

#include <algorithm>
#include <optional>

#include "cleave/plan/tune/partition.h"

namespace cleave::plan {
namespace {

constexpr std::size_t kListed = 5;

/// Clusters of up to so many times the devices are tried when nothing fits.
constexpr std::int64_t kMostGrowth = 1024;

/// The allowed way to run `division` that needs least memory; nothing: none is allowed.
std::optional<Layout> leanest_of(const ModelShape& model, Layout division, const Allowed& allowed) {
  using enum schedule::Recompute;
  if (has_loss_over_step(model)) division.schedule = "gpipe";
  const bool divides_rows = division.tensor > 1 && model.vision.deepstack.empty();
  for (const schedule::Recompute kind : {Full, Selective, None}) {
    for (const bool sequence_parallel : {true, false}) {
      if (sequence_parallel && !divides_rows) continue;
      division.recompute = {kind};
      division.sequence_parallel = sequence_parallel;
      if (!allowed || allowed(division)) return division;
    }
  }
  return std::nullopt;
}

/// The way to run each division that needs least memory, the leanest first.
std::vector<Prediction> leanest(Predictor& predictor, const Allowed& allowed) {
  std::vector<Prediction> lean;
  for (const Layout& division : divisions(space_of(predictor.workload()))) {
    const std::optional<Layout> layout = leanest_of(predictor.workload().model, division, allowed);
    if (layout) lean.push_back(predictor.memory(*layout));
  }
  std::ranges::stable_sort(lean, {}, &Prediction::memory_bytes);
  return lean;
}

/// Whether some layout of `workload` fits on so many devices.
bool fits_on(Workload workload, std::int64_t devices, const Allowed& allowed) {
  workload.cluster.devices = devices;
  Predictor predictor(workload);
  const std::vector<Prediction> lean = leanest(predictor, allowed);
  return !lean.empty() && lean.front().fits();
}

}  // namespace

LayoutSpace space_of(const Workload& workload) {
  using enum schedule::Recompute;
  LayoutSpace space{.devices = workload.cluster.devices,
                    .layers = workload.model.blocks(),
                    .batch = workload.batch,
                    .given = {.chunks = 1},
                    .tensor = {},
                    .most_microbatch = 64,
                    .any_graph = !part_edges(model_graph(workload, 1)).empty(),
                    .keeps_all = has_loss_over_step(workload.model),
                    .recompute = {None, Selective, Full},
                    .on_clusters = true};
  // With flash attention there are no scores for selective recompute to drop.
  if (workload.attention == AttentionKernel::Flash) space.recompute = {None, Full};
  for (int tensor = 1; tensor <= workload.cluster.hardware->node; ++tensor) {
    if (space.devices % tensor == 0 && splits(workload.model, tensor))
      space.tensor.push_back(tensor);
  }
  return space;
}

SearchResult search_layouts(const Workload& workload, const Allowed& allowed) {
  Predictor predictor(workload);
  LayoutSpace space = space_of(workload);
  space.allowed = allowed;
  SearchResult result = search(space, layouts(space), predictor);
  if (result.fitting.size() > kListed) result.fitting.resize(kListed);
  if (!result.fitting.empty()) return result;
  for (const Prediction& lean : leanest(predictor, allowed)) {
    if (result.unfit.size() == kListed) break;
    result.unfit.push_back(predictor.predict(lean.layout));
  }
  return result;
}

/// Doubles the cluster until something fits, then takes away whole nodes by bisection.
std::int64_t devices_needed(const Workload& workload, const Allowed& allowed) {
  const std::int64_t most = kMostGrowth * workload.cluster.devices;
  std::int64_t many = 2 * workload.cluster.devices;
  while (!fits_on(workload, many, allowed)) {
    many *= 2;
    if (many > most) return 0;
  }
  const std::int64_t node = workload.cluster.hardware->node;
  std::int64_t too_few = many / 2 / node;  // in nodes, as is `enough`
  std::int64_t enough = (many + node - 1) / node;
  while (enough - too_few > 1) {
    const std::int64_t middle = (too_few + enough) / 2;
    (fits_on(workload, middle * node, allowed) ? enough : too_few) = middle;
  }
  return std::min(many, enough * node);
}

}  // namespace cleave::plan
