#include "cleave/shard/sharded.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "cleave/base/check.h"
#include "cleave/shard/parameter_cut.h"
#include "cleave/spec/layers.h"

namespace cleave::shard {
namespace {

/// Declares the layers of one shard after what `spec` has already.
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

    if (!layer.reads.empty()) {
      CLEAVE_CHECK(spec.reads.empty() || spec.reads == layer.reads, layer.name,
                   " reads other ports than the rest of its chains");
      spec.reads = layer.reads;
    }

    std::ranges::copy(layer.parameters, std::back_inserter(spec.parameters));
    std::ranges::copy(layer.forward, std::back_inserter(spec.forward));
    std::ranges::copy(layer.backward_input, std::back_inserter(spec.backward_input));
    std::ranges::copy(layer.backward_weight, std::back_inserter(spec.backward_weight));
    for (const TensorSpec& constant : layer.constants) {
      if (std::ranges::find(spec.constants, constant.name, &TensorSpec::name) ==
          spec.constants.end())
        spec.constants.push_back(constant);
    }
  }
  return links;
}

}  // namespace

ShardAxis axis_of(std::int64_t rows, const TensorShare& share) {
  return {.devices = share.devices,
          .rank = share.rank,
          .local = share.local(),
          .tokens = rows,
          .own_tokens = share.own_tokens(rows)};
}

LayerSpec sharded(const std::string& name, const TensorShare& share, ShardedShape shape) {
  const LayerSpec& first = shape.chains.front().front();
  const LayerSpec& last = shape.chains.front().back();
  const ShardAxis axis = axis_of(first.x.shape[0], share);
  LayerSpec spec;
  spec.kind = "sharded";
  spec.name = name;
  spec.x = first.x;
  if (!shape.from_data) spec.x.shape = spec.x.shape.with(0, axis.own_tokens);
  spec.y = last.y;
  spec.y.shape = spec.y.shape.with(0, axis.own_tokens);
  spec.x_until = first.x_until;
  spec.dy_until = Until::Weight;
  if (share.divides_tokens() && !shape.from_data) {
    // I gathers dy and leaves it for W.
    spec.dy_until = Until::Input;
    spec.kept_by_input.push_back({"dy", last.y.dtype, last.y.shape});
  }

  ShardedAttributes attributes{.axis = axis,
                               .from_data = shape.from_data,
                               .after = shape.added.what,
                               .sequence = shape.added.sequence,
                               .shared = shape.shared};
  for (const auto& chain : shape.chains) attributes.links.push_back(append_chain(chain, spec));
  if (shape.added.what != AfterSum::Nothing) {
    mark_copies(shape.added.parameter, share);
    spec.parameters.push_back(std::move(shape.added.parameter));
  }
  attributes.chains = std::move(shape.chains);
  spec.attributes = std::move(attributes);
  return spec;
}

LayerSpec sharded_loss(const LayerSpec& whole, const TensorShare& share) {
  const auto& loss = whole.as<LossAttributes>();
  require(loss.blocks == 1, "a loss in ", loss.blocks,
          " blocks cannot be cut into tensor shards; use one block");
  ShardedLossAttributes attributes{.axis = axis_of(whole.x.shape[0], share)};
  LayerSpec spec;
  for (int k = 0; k < share.local(); ++k) {
    const ShardNumber shard{.index = share.first() + k, .of = share.shards, .local = k};
    const ParameterSpec weight = cut_parameter(whole.parameters[0], shard);
    LayerSpec part = spec::loss(shard_name(whole.name, k),
                                {.sequence = whole.x.shape[0], .dtype = whole.x.dtype},
                                {.vocabulary = weight.shape[0], .features = weight.shape[1]});
    part.parameters = {weight};
    if (k == 0) {
      spec = part;  // targets, lse and the first logits
    } else {
      spec.parameters.push_back(weight);
      spec.kept_by_forward.push_back(part.kept_by_forward.back());
      std::ranges::copy(part.forward, std::back_inserter(spec.forward));
      std::ranges::copy(part.backward_input, std::back_inserter(spec.backward_input));
      std::ranges::copy(part.backward_weight, std::back_inserter(spec.backward_weight));
    }
    attributes.first.push_back(vocabulary_border(loss.vocabulary, shard.index, shard.of));
  }
  spec.kind = "sharded_loss";
  spec.name = whole.name;
  spec.x.shape = spec.x.shape.with(0, attributes.axis.own_tokens);
  spec.attributes = std::move(attributes);
  return spec;
}

LayerSpec token_sliced(std::int64_t rows, const TensorShare& share, std::vector<LayerSpec> slices) {
  const ShardAxis axis = axis_of(rows, share);
  const std::int64_t count = std::ssize(slices);
  LayerSpec spec = slices.front();
  spec.kind = "token_sliced";
  spec.x.shape = spec.x.shape.with(0, axis.own_tokens);
  spec.y.shape = spec.y.shape.with(0, axis.own_tokens);
  for (KeptTensor& kept : spec.kept_by_forward) {
    kept.tensor.shape = kept.tensor.shape.with(0, axis.own_tokens);
  }
  for (TensorSpec& kept : spec.kept_by_input) kept.shape = {count, kept.shape.elements()};
  for (const ParameterSpec& parameter : spec.parameters) {
    spec.sums.push_back({parameter.name, DType::F32, {count, parameter.elements()}});
  }
  spec.attributes = TokenSlicedAttributes{.axis = axis, .slices = std::move(slices)};
  return spec;
}

}  // namespace cleave::shard
