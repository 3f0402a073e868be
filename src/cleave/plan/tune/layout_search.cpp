#include "cleave/plan/tune/layout_search.h"

#include <algorithm>
#include <array>
#include <iterator>

#include "cleave/plan/tune/layout_space.h"

namespace cleave::plan {
namespace {

/// How many of the fastest are certain to be in the answer.
constexpr std::size_t kBest = 5;
constexpr std::size_t kNearest = 5;

/// Clusters of up to so many times the devices are tried when nothing fits.
constexpr std::int64_t kMostGrowth = 1024;

struct Candidate {
  double bound = 0;
  Layout layout;
};

/// Those that fit, each with the least recompute that makes it fit.
std::vector<Candidate> candidates(Predictor& predictor, SearchResult& result) {
  const Workload& workload = predictor.workload();
  const std::int64_t budget = usable_memory(*workload.cluster.hardware);
  const std::vector<schedule::Recompute> kinds = recomputes(workload);
  std::vector<Candidate> fitting;
  for (const Layout& division : divisions(workload)) {
    const std::vector<Layout> ways = runs(workload, division);
    result.layouts += std::ssize(ways) * std::ssize(kinds);
    if (predictor.state_bytes(division) > static_cast<double>(budget)) {
      result.unfit += std::ssize(ways) * std::ssize(kinds);
      continue;
    }
    for (Layout layout : ways) {
      for (const schedule::Recompute recompute : kinds) {
        layout.recompute = recompute;
        if (predictor.memory(layout).fits) {
          fitting.push_back({predictor.bound(layout), layout});
          break;
        }
        ++result.unfit;
      }
    }
  }
  std::ranges::stable_sort(fitting, {}, &Candidate::bound);
  return fitting;
}

void simulate_best(Predictor& predictor, const std::vector<Candidate>& fitting,
                   SearchResult& result) {
  for (const Candidate& candidate : fitting) {
    const bool enough = result.best.size() >= kBest;
    if (enough && candidate.bound >= result.best[kBest - 1].step_seconds) break;
    Prediction prediction = predictor.predict(candidate.layout);
    ++result.simulated;
    const auto at = std::ranges::upper_bound(result.best, prediction.step_seconds, {},
                                             &Prediction::step_seconds);
    result.best.insert(at, std::move(prediction));
  }
  if (result.best.size() > kBest) result.best.resize(kBest);
}

/// The way to run each division that needs least memory.
std::vector<Prediction> leanest(Predictor& predictor) {
  const Workload& workload = predictor.workload();
  std::vector<Prediction> lean;
  for (Layout layout : divisions(workload)) {
    layout.recompute = schedule::Recompute::Full;
    layout.sequence_parallel = layout.tensor > 1;
    lean.push_back(predictor.memory(layout));
  }
  std::ranges::stable_sort(lean, {}, &Prediction::memory_bytes);
  return lean;
}

/// Whether some layout of `workload` fits on so many devices.
bool fits_on(Workload workload, std::int64_t devices) {
  workload.cluster.devices = devices;
  Predictor predictor(workload);
  const std::vector<Prediction> lean = leanest(predictor);
  return !lean.empty() && lean.front().fits;
}

/// Doubles the cluster until something fits, then takes away whole nodes by bisection.
std::int64_t devices_needed(const Workload& workload) {
  const std::int64_t most = kMostGrowth * workload.cluster.devices;
  std::int64_t many = 2 * workload.cluster.devices;
  while (!fits_on(workload, many)) {
    many *= 2;
    if (many > most) return 0;
  }
  const std::int64_t node = workload.cluster.hardware->node;
  std::int64_t too_few = many / 2 / node;  // in nodes, as is `enough`
  std::int64_t enough = (many + node - 1) / node;
  while (enough - too_few > 1) {
    const std::int64_t middle = (too_few + enough) / 2;
    (fits_on(workload, middle * node) ? enough : too_few) = middle;
  }
  return std::min(many, enough * node);
}

struct NamedPart {
  const char* name;
  double TimeParts::*part;
};
constexpr std::array<NamedPart, 7> kParts = {
    {{"arithmetic", &TimeParts::arithmetic},
     {"recompute", &TimeParts::recompute},
     {"tensor communication", &TimeParts::tensor_communication},
     {"pipeline communication", &TimeParts::pipeline_communication},
     {"data communication", &TimeParts::data_communication},
     {"bubble", &TimeParts::bubble},
     {"optimizer", &TimeParts::optimizer}}};

}  // namespace

SearchResult search_layouts(const Workload& workload) {
  SearchResult result;
  Predictor predictor(workload);
  simulate_best(predictor, candidates(predictor, result), result);
  if (!result.best.empty()) return result;
  for (const Prediction& lean : leanest(predictor)) {
    if (result.nearest.size() == kNearest) break;
    result.nearest.push_back(predictor.predict(lean.layout));
  }
  result.devices_needed = devices_needed(workload);
  return result;
}

Reason why_slower(const Prediction& best, const Prediction& other) {
  const NamedPart* worst = &kParts[0];
  for (const NamedPart& named : kParts) {
    if (other.parts.*named.part - best.parts.*named.part >
        other.parts.*worst->part - best.parts.*worst->part) {
      worst = &named;
    }
  }
  const double more = other.parts.*worst->part - best.parts.*worst->part;
  return {worst->name, more / best.step_seconds};
}

}  // namespace cleave::plan
