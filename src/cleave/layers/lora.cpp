#include "cleave/layers/lora.h"

#include "cleave/ops/elementwise.h"
#include "cleave/ops/matmul.h"
#include "cleave/ops/reduce.h"

namespace cleave {
namespace {

// Indices into what the specs declare (spec/lora_layers.cpp).
constexpr int kDRanks = 0;  // of what I of lora_down keeps
constexpr int kRanks = 0;   // of what F of lora_up keeps

/// The first `features` of every row, and the others.
template <class V>
V first_features(V rows, std::int64_t features) {
  return rows ? rows.slice(1, 0, features) : rows;
}
template <class V>
V other_features(V rows, std::int64_t features) {
  return rows ? rows.slice(1, features, rows.size(1) - features) : rows;
}

}  // namespace

// ── lora_down ────────────────────────────────────────────────────────────────────────────────────

void LoraDown::forward(ops::Compute& compute, const LayerCall& call) {
  const std::int64_t in = call.x.size(1);
  const View ranks = other_features(call.y, in);
  ops::copy(compute, call.x, first_features(call.y, in));
  ops::matmul(compute, call.x, ConstView(parameter(0).value).transposed(), ranks);
  ops::scale(compute, ranks, spec().as<LoraDownAttributes>().scale, ranks);
}

void LoraDown::backward_input(ops::Compute& compute, const LayerCall& call) {
  const std::int64_t in = spec().x.shape[1];
  const View dranks = call.kept_by_input[kDRanks];
  ops::scale(compute, other_features(call.dy, in), spec().as<LoraDownAttributes>().scale, dranks);
  if (!call.dx) return;
  ops::copy(compute, first_features(call.dy, in), call.dx);
  ops::matmul(compute, dranks, parameter(0).value, call.dx, {.write = Write::Accumulate});
}

void LoraDown::backward_weight(ops::Compute& compute, const LayerCall& call) {
  const ConstView x = first_features(call.y, spec().x.shape[1]);
  ops::matmul(compute, ConstView(call.kept_by_input[kDRanks]).transposed(), x, gradient(0, call),
              {.write = call.gradient});
}

// ── A linear layer with more features ────────────────────────────────────────────────────────────

void LoraWithLinear::fill_constants() {
  std::vector<Parameter> parameters;
  for (int i = 0; i < linear_parameters(); ++i) parameters.push_back(parameter(i));
  linear_.bind(parameters, {}, {}, memory());
}

void LoraWithLinear::move_value(int index, View value) {
  Layer::move_value(index, value);
  if (index < linear_parameters()) linear_.move_value(index, value);
}

void LoraWithLinear::linear_forward(ops::Compute& compute, const LayerCall& call) {
  LayerCall part = call;
  part.x = first_features(call.x, linear_.spec().x.shape[1]);
  part.y = first_features(call.y, linear_.spec().y.shape[1]);
  linear_.forward(compute, part);
}

void LoraWithLinear::linear_input(ops::Compute& compute, const LayerCall& call) {
  LayerCall part = call;
  part.dy = first_features(call.dy, linear_.spec().y.shape[1]);
  part.dx = first_features(call.dx, linear_.spec().x.shape[1]);
  linear_.backward_input(compute, part);
}

void LoraWithLinear::linear_weight(ops::Compute& compute, const LayerCall& call) {
  LayerCall part = call;
  part.x = first_features(call.x, linear_.spec().x.shape[1]);
  part.dy = first_features(call.dy, linear_.spec().y.shape[1]);
  linear_.backward_weight(compute, part);
}

// ── lora_linear ──────────────────────────────────────────────────────────────────────────────────

template <class Visit>
void LoraLinear::for_each_target(Visit&& visit) const {
  const auto& targets = spec().as<LoraLinearAttributes>().targets;
  std::int64_t at = linear_.spec().x.shape[1];
  for (std::size_t t = 0; t < targets.size(); ++t) {
    const int index = linear_parameters() + static_cast<int>(t);
    const Shape& up = spec().parameters[static_cast<std::size_t>(index)].shape;
    visit(
        index, [&](auto x) { return x.slice(1, at, up[1]); },
        [&](auto y) { return y.slice(1, targets[t].column, up[0]); });
    at += up[1];
  }
}

void LoraLinear::forward(ops::Compute& compute, const LayerCall& call) {
  linear_forward(compute, call);
  for_each_target([&](int index, auto ranks, auto columns) {
    ops::matmul(compute, ranks(call.x), ConstView(parameter(index).value).transposed(),
                columns(call.y), {.write = Write::Accumulate});
  });
}

void LoraLinear::backward_input(ops::Compute& compute, const LayerCall& call) {
  linear_input(compute, call);
  for_each_target([&](int index, auto ranks, auto columns) {
    ops::matmul(compute, columns(call.dy), parameter(index).value, ranks(call.dx));
  });
}

void LoraLinear::backward_weight(ops::Compute& compute, const LayerCall& call) {
  linear_weight(compute, call);
  for_each_target([&](int index, auto ranks, auto columns) {
    if (!is_trained(index)) return;
    ops::matmul(compute, columns(call.dy).transposed(), ranks(call.x), gradient(index, call),
                {.write = call.gradient});
  });
}

// ── lora_row ─────────────────────────────────────────────────────────────────────────────────────

void LoraRow::forward(ops::Compute& compute, const LayerCall& call) {
  linear_forward(compute, call);
  ops::matmul(compute, call.x, ConstView(parameter(1).value).transposed(),
              other_features(call.y, linear_.spec().y.shape[1]));
}

void LoraRow::backward_input(ops::Compute& compute, const LayerCall& call) {
  linear_input(compute, call);
  ops::matmul(compute, other_features(call.dy, linear_.spec().y.shape[1]), parameter(1).value,
              call.dx, {.write = Write::Accumulate});
}

void LoraRow::backward_weight(ops::Compute& compute, const LayerCall& call) {
  linear_weight(compute, call);
  if (!is_trained(1)) return;
  ops::matmul(compute, other_features(call.dy, linear_.spec().y.shape[1]).transposed(), call.x,
              gradient(1, call), {.write = call.gradient});
}

// ── lora_up ──────────────────────────────────────────────────────────────────────────────────────

void LoraUp::forward(ops::Compute& compute, const LayerCall& call) {
  const auto& attributes = spec().as<LoraUpAttributes>();
  const std::int64_t out = call.y.size(1);
  const View ranks = call.kept_by_forward[kRanks];
  const View base = first_features(call.x, out);
  if (attributes.bias == Bias::Add) {
    ops::add(compute, base, parameter(1).value.repeated(base.size(0)), call.y);
  } else {
    ops::copy(compute, base, call.y);
  }
  ops::scale(compute, other_features(call.x, out), attributes.scale, ranks);
  ops::matmul(compute, ranks, ConstView(parameter(0).value).transposed(), call.y,
              {.write = Write::Accumulate});
}

void LoraUp::backward_input(ops::Compute& compute, const LayerCall& call) {
  const std::int64_t out = spec().y.shape[1];
  const View dranks = other_features(call.dx, out);
  ops::copy(compute, call.dy, first_features(call.dx, out));
  ops::matmul(compute, call.dy, parameter(0).value, dranks);
  ops::scale(compute, dranks, spec().as<LoraUpAttributes>().scale, dranks);
}

void LoraUp::backward_weight(ops::Compute& compute, const LayerCall& call) {
  if (is_trained(0))
    ops::matmul(compute, call.dy.transposed(), call.kept_by_forward[kRanks], gradient(0, call),
                {.write = call.gradient});
  if (spec().as<LoraUpAttributes>().bias == Bias::None || !is_trained(1)) return;
  if (call.gradient == Write::Overwrite) ops::fill(compute, 0, gradient(1, call));
  ops::add_column_sums(compute, call.dy, gradient(1, call));
}

}  // namespace cleave
