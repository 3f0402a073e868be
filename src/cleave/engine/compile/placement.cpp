#include "cleave/engine/compile/placement.h"

#include <algorithm>
#include <iterator>
#include <limits>
#include <numeric>
#include <optional>
#include <string>

#include "cleave/base/check.h"
#include "cleave/plan/tune/partition.h"

namespace cleave::engine {
namespace {

using Sizes = std::vector<std::int64_t>;

/// The costs of segments, of which the first `encoder` are not of the last module.
struct ModuleCosts {
  std::vector<double> costs;
  std::int64_t encoder = 0;

  explicit ModuleCosts(const Graph& model) {
    for (const SegmentSpec& segment : model.segments)
      costs.push_back(static_cast<double>(flops(segment)));
    encoder = encoder_segments(model);
    require(encoder > 0,
            "parallel.placement says where the encoder of a model is, and this one has no modules; "
            "leave it out");
  }

  std::int64_t rest() const { return std::ssize(costs) - encoder; }
};

/// Stages of equal cost from the segments [first, first + count).
void add_balanced(const ModuleCosts& model, std::int64_t first, std::int64_t count, int stages,
                  Sizes& sizes) {
  const auto begin = model.costs.begin() + first;
  std::ranges::copy(plan::balance({begin, begin + count}, stages), std::back_inserter(sizes));
}

/// The encoder and the segment that joins it to the language model count as one segment.
std::optional<Sizes> first_sizes(const ModuleCosts& model, int stages) {
  if (stages > model.rest()) return std::nullopt;
  std::vector<double> merged(model.costs.begin() + model.encoder, model.costs.end());
  merged[0] += std::accumulate(model.costs.begin(), model.costs.begin() + model.encoder, 0.0);
  Sizes sizes = plan::balance(merged, stages);
  sizes[0] += model.encoder;
  return sizes;
}

/// `encoder` stages, and those of the language model after them.
std::optional<Sizes> apart_sizes(const ModuleCosts& model, int stages, int encoder) {
  if (encoder < 1 || encoder >= stages || encoder > model.encoder ||
      stages - encoder > model.rest())
    return std::nullopt;
  Sizes sizes;
  add_balanced(model, 0, model.encoder, encoder, sizes);
  add_balanced(model, model.encoder, model.rest(), stages - encoder, sizes);
  return sizes;
}

/// What the most loaded device has to do; stage s of 2 · devices is on device s mod devices.
double most_loaded(const ModuleCosts& model, const Sizes& sizes, int devices) {
  std::vector<double> loads(static_cast<std::size_t>(devices), 0);
  std::size_t next = 0;
  for (std::size_t s = 0; s < sizes.size(); ++s) {
    for (std::int64_t k = 0; k < sizes[s]; ++k) loads[s % loads.size()] += model.costs[next++];
  }
  return std::ranges::max(loads);
}

std::optional<Sizes> least_loaded(const ModuleCosts& model, const Layout& layout, int stages) {
  std::vector<std::optional<Sizes>> found;
  if (stages == 2 * layout.pipeline) {
    found.push_back(apart_sizes(model, stages, layout.pipeline));
  } else {
    found.push_back(first_sizes(model, stages));
    for (int encoder = 1; encoder < stages; ++encoder)
      found.push_back(apart_sizes(model, stages, encoder));
  }
  std::optional<Sizes> best;
  double least = std::numeric_limits<double>::infinity();
  for (const auto& sizes : found) {
    const double load = sizes ? most_loaded(model, *sizes, layout.pipeline) : least;
    if (load >= least) continue;
    least = load;
    best = sizes;
  }
  return best;
}

}  // namespace

std::int64_t encoder_segments(const Graph& model) {
  const std::string& last = model.segments.back().module;
  return std::ranges::find(model.segments, last, &SegmentSpec::module) - model.segments.begin();
}

std::vector<std::int64_t> placed_segments(const Graph& model, const Layout& layout, int stages) {
  const ModuleCosts costs(model);
  require(layout.placement != Placement::Shared || stages == 2 * layout.pipeline,
          "parallel.placement \"shared\" puts two stages on each device, and the schedule has ",
          stages, " on ", layout.pipeline, " devices; set parallel.chunks = 2");
  const auto sizes =
      layout.placement == Placement::First    ? first_sizes(costs, stages)
      : layout.placement == Placement::Own    ? apart_sizes(costs, stages, layout.encoder_stages)
      : layout.placement == Placement::Shared ? apart_sizes(costs, stages, layout.pipeline)
                                              : least_loaded(costs, layout, stages);
  require(sizes.has_value(), "the ", costs.encoder, " segments of the encoder and the ",
          costs.rest(), " of the rest of the model cannot be placed on ", stages,
          " stages in this way; use fewer pipeline devices, or another parallel.placement");
  return *sizes;
}

}  // namespace cleave::engine
