#include "cleave/spec/sharded.h"

#include <algorithm>
#include <iterator>
#include <string>
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

ShardAxis axis_of(const Flow& flow, const TensorShare& share) {
  return {.devices = share.devices,
          .rank = share.rank,
          .local = share.local(),
          .tokens = flow.tokens(),
          .own_tokens = share.own_tokens(flow.tokens())};
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

  ShardedAttributes attributes{.axis = axis_of(flow, share),
                               .sequence = flow.sequence,
                               .after = shape.after,
                               .shared = shape.shared};
  for (const auto& chain : shape.chains) attributes.links.push_back(append_chain(chain, spec));
  if (shape.after != AfterSum::Nothing) spec.parameters.push_back(std::move(shape.added));
  attributes.chains = std::move(shape.chains);
  spec.attributes = std::move(attributes);
  return spec;
}

std::int64_t vocabulary_border(std::int64_t vocabulary, const TensorShare& share, int shard) {
  return vocabulary * shard / share.shards;
}

std::string shard_name(const std::string& whole, int local) {
  return whole + "#" + std::to_string(local);
}

LayerSpec sharded_loss(const std::string& name, const Flow& flow, const TensorShare& share,
                       const ShardedLossShape& shape) {
  ShardedLossAttributes attributes{.axis = axis_of(flow, share)};
  LayerSpec spec;
  for (int k = 0; k < share.local(); ++k) {
    const int shard = share.first() + k;
    const std::int64_t first = vocabulary_border(shape.vocabulary, share, shard);
    const std::int64_t entries = vocabulary_border(shape.vocabulary, share, shard + 1) - first;
    const bool tied = !shape.tied_to.empty();
    LayerSpec part = loss(shard_name(name, k), flow,
                          {.vocabulary = entries,
                           .features = shape.features,
                           .weight_name = shard_name(shape.weight, k),
                           .tied_to = tied ? shard_name(shape.tied_to, k) : ""});
    part.parameters[0].pieces = {{.name = tied ? shape.tied_to : shape.weight,
                                  .extent = entries,
                                  .start = first,
                                  .whole = shape.vocabulary}};
    if (k == 0) {
      spec = part;  // targets, lse and the first logits
    } else {
      spec.parameters.push_back(part.parameters[0]);
      spec.kept_by_forward.push_back(part.kept_by_forward.back());
      std::ranges::copy(part.forward, std::back_inserter(spec.forward));
      std::ranges::copy(part.backward_input, std::back_inserter(spec.backward_input));
      std::ranges::copy(part.backward_weight, std::back_inserter(spec.backward_weight));
    }
    attributes.first.push_back(first);
  }
  spec.kind = "sharded_loss";
  spec.name = name;
  spec.x.shape = spec.x.shape.with(0, attributes.axis.own_tokens);
  spec.attributes = std::move(attributes);
  return spec;
}

LayerSpec token_sliced(const Flow& flow, const TensorShare& share, LayerSpec slice) {
  const ShardAxis axis = axis_of(flow, share);
  const std::int64_t slices = axis.own_tokens / slice.x.shape[0];
  LayerSpec spec = slice;
  spec.kind = "token_sliced";
  spec.x.shape = spec.x.shape.with(0, axis.own_tokens);
  spec.y.shape = spec.y.shape.with(0, axis.own_tokens);
  for (KeptTensor& kept : spec.kept_by_forward) {
    kept.tensor.shape = kept.tensor.shape.with(0, axis.own_tokens);
  }
  for (TensorSpec& kept : spec.kept_by_input) kept.shape = {slices, kept.shape.elements()};
  for (const ParameterSpec& parameter : spec.parameters) {
    spec.sums.push_back({parameter.name, DType::F32, {slices, parameter.elements()}});
  }
  TokenSlicedAttributes attributes{.axis = axis, .slices = static_cast<int>(slices)};
  attributes.slice.push_back(std::move(slice));
  spec.attributes = std::move(attributes);
  return spec;
}

}  // namespace cleave::spec
