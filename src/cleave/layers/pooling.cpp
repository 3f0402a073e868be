#include "cleave/layers/pooling.h"

#include "cleave/ops/elementwise.h"
#include "cleave/ops/matmul.h"
#include "cleave/ops/placed_rows.h"
#include "cleave/ops/unit_rows.h"
#include "cleave/spec/contrastive_layers.h"

namespace cleave {
namespace {

// Indices into what the specs declare (spec/contrastive_layers.cpp).
constexpr int kInverse = 0;  // of what unit rows keep
constexpr int kEnds = 0;     // of what a picked row reads
constexpr int kQuery = 0;    // of what the pool keeps in F
constexpr int kWeights = 1;
constexpr int kKeptProbe = 2;
constexpr int kDQuery = 0;  // and in I
constexpr int kDQueryRounded = 1;
constexpr int kDProbe = 2;
constexpr int kProbe = 0;  // of its parameters
constexpr int kQueryWeight = 1;
constexpr int kQueryBias = 2;

View as_vector(View row) {
  return row.reshaped({row.elements()});
}

}  // namespace

void UnitRows::forward(ops::Compute& compute, const LayerCall& call) {
  ops::unit_rows(compute, call.x, call.y, call.kept_by_forward[kInverse]);
}

void UnitRows::backward_input(ops::Compute& compute, const LayerCall& call) {
  ops::unit_rows_backward(compute, call.dy, call.x, call.kept_by_forward[kInverse], call.dx);
}

void PickedRow::forward(ops::Compute& compute, const LayerCall& call) {
  const ConstView ends = call.reads[kEnds];
  ops::place_rows(compute, {.ids = ends, .places = ends}, call.x, call.x, call.y);
}

void PickedRow::backward_input(ops::Compute& compute, const LayerCall& call) {
  ops::place_rows_backward(compute, call.reads[kEnds], call.dy, call.dx);
}

ops::PoolShape AttentionPool::shape() const {
  const auto& attributes = spec().as<PoolAttributes>();
  return {.sequences = spec().y.shape[0],
          .sequence = attributes.sequence,
          .heads = attributes.heads,
          .head_dim = spec().y.shape[1] / attributes.heads};
}

void AttentionPool::forward(ops::Compute& compute, const LayerCall& call) {
  const View query = call.kept_by_forward[kQuery];
  const View probe = parameter(kProbe).value.reshaped(query.shape());
  ops::copy(compute, probe, call.kept_by_forward[kKeptProbe]);
  ops::matmul(compute, probe, ConstView(parameter(kQueryWeight).value).transposed(), query,
              {.bias = parameter(kQueryBias).value});
  ops::attention_pool(compute, shape(), as_vector(query), call.x, call.y,
                      call.kept_by_forward[kWeights]);
}

void AttentionPool::backward_input(ops::Compute& compute, const LayerCall& call) {
  const View dquery = call.kept_by_input[kDQuery];
  const View rounded = call.kept_by_input[kDQueryRounded];
  ops::attention_pool_backward(compute, shape(),
                               {.q = as_vector(call.kept_by_forward[kQuery]),
                                .kv = call.x,
                                .p = call.kept_by_forward[kWeights],
                                .dy = call.dy,
                                .dkv = call.dx,
                                .dq = as_vector(dquery)});
  ops::copy(compute, dquery, rounded);
  ops::matmul(compute, rounded, parameter(kQueryWeight).value, call.kept_by_input[kDProbe]);
}

void AttentionPool::backward_weight(ops::Compute& compute, const LayerCall& call) {
  const auto add = [&](int index, View own) {
    if (!is_trained(index)) return;
    ops::write(compute, own, gradient(index, call).reshaped({1, own.elements()}), call.gradient);
  };
  add(kProbe, call.kept_by_input[kDProbe]);
  add(kQueryBias, call.kept_by_input[kDQuery]);
  if (is_trained(kQueryWeight))
    ops::matmul(compute, ConstView(call.kept_by_input[kDQueryRounded]).transposed(),
                call.kept_by_forward[kKeptProbe], gradient(kQueryWeight, call),
                {.write = call.gradient});
}

}  // namespace cleave
