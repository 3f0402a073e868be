#include "cleave/spec/sharded.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "cleave/base/check.h"

namespace cleave::spec {
namespace {

/// Declares the layers of one shard behind what `spec` has already.
std::vector<ShardLink> append_chain(const std::vector<LayerSpec>& chain, LayerSpec& spec) {
  std::vector<ShardLink> links;
  for (std::size_t i = 0; i < chain.size(); ++i) {
    const LayerSpec& layer = chain[i];
    CLEAVE_CHECK(!layer.dx_is_dy && layer.skip < 0, layer.name, " cannot be in a chain of shards");
    ShardLink link;
    if (i + 1 < chain.size()) {
      const Until until = std::max(chain[i + 1].x_until, layer.y_until);
      if (until != Until::Forward) {
        link.y = static_cast<int>(spec.kept_by_forward.size());
        spec.kept_by_forward.push_back({layer.y, until});
      }
    }
    link.kept = static_cast<int>(spec.kept_by_forward.size());
    std::ranges::copy(layer.kept_by_forward, std::back_inserter(spec.kept_by_forward));
    if (i > 0 && chain[i - 1].dy_until == Until::Weight) {
      link.dx = static_cast<int>(spec.kept_by_input.size());
      spec.kept_by_input.push_back(layer.x);
    }
    link.kept_by_input = static_cast<int>(spec.kept_by_input.size());
    std::ranges::copy(layer.kept_by_input, std::back_inserter(spec.kept_by_input));
    links.push_back(link);

    std::ranges::copy(layer.parameters, std::back_inserter(spec.parameters));
    std::ranges::copy(layer.forward, std::back_inserter(spec.forward));
    std::ranges::copy(layer.backward_input, std::back_inserter(spec.backward_input));
    std::ranges::copy(layer.backward_weight, std::back_inserter(spec.backward_weight));
    for (const TensorSpec& constant : layer.constants) {
      const auto named = [&](const TensorSpec& known) { return known.name == constant.name; };
      if (std::ranges::none_of(spec.constants, named)) spec.constants.push_back(constant);
    }
  }
  return links;
}

}  // namespace

LayerSpec sharded(const std::string& name, const Flow& flow, const TensorShare& share,
                  ShardedShape shape) {
  const LayerSpec& first = shape.chains.front().front();
  const LayerSpec& last = shape.chains.front().back();
  const bool divided = share.divides_tokens();
  const bool from_ids = first.x.dtype == DType::I32;
  const std::int64_t own = share.own_tokens(flow.tokens());
  LayerSpec spec;
  spec.kind = "sharded";
  spec.name = name;
  spec.x = first.x;
  if (!from_ids) spec.x.shape = spec.x.shape.with(0, own);
  spec.y = last.y;
  spec.y.shape = spec.y.shape.with(0, own);
  spec.x_until = first.x_until;
  spec.dy_until = Until::Weight;
  if (divided && !from_ids) {
    // I gathers dy and leaves it for W.
    spec.dy_until = Until::Input;
    spec.kept_by_input.push_back({"dy", last.y.dtype, last.y.shape});
  }

  ShardedAttributes attributes{.devices = share.devices,
                               .rank = share.rank,
                               .tokens = flow.tokens(),
                               .sequence = flow.sequence,
                               .after = shape.after,
                               .shared = shape.shared};
  for (const auto& chain : shape.chains) attributes.links.push_back(append_chain(chain, spec));
  if (shape.after != AfterSum::Nothing) spec.parameters.push_back(std::move(shape.added));
  attributes.chains = std::move(shape.chains);
  spec.attributes = std::move(attributes);
  return spec;
}

}  // namespace cleave::spec
