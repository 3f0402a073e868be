#include "cleave/parallel/sharded_loss.h"

#include <algorithm>

#include "cleave/ops/elementwise.h"
#include "cleave/ops/matmul.h"
#include "cleave/ops/scratch_claim.h"

namespace cleave::parallel {
namespace {

// Indices into what the spec declares (shard/sharded.cpp).
constexpr int kTargets = 0;  // of what it reads
constexpr int kLse = 0;      // of what it keeps
constexpr int kFirstLogits = 1;

constexpr int kNumbers = 3;  // of a shard, per token

/// states f32 [shards · 3, tokens]
ops::SoftmaxState state_of(View states, std::int64_t shard) {
  const auto row = [&](std::int64_t number) {
    return states.slice(0, shard * kNumbers + number, 1).reshaped({states.size(1)});
  };
  return {row(0), row(1), row(2)};
}

}  // namespace

ShardedLoss::ShardedLoss(const LayerSpec& spec, TensorGroup* group)
    : ShardedLayer(spec, spec.as<ShardedLossAttributes>().axis, group) {}

TensorSpec ShardedLoss::whole_x() const {
  return {"x", spec().x.dtype, spec().x.shape.with(0, axis().tokens)};
}

std::int64_t ShardedLoss::state_bytes() const {
  return aligned(axis().local * axis().devices * kNumbers * axis().tokens * size_of(DType::F32));
}

std::int64_t ShardedLoss::scratch_bytes(ops::Compute& compute) const {
  const std::int64_t gathered = divided() ? whole_x().bytes() : 0;
  const std::int64_t workspace = reduce_workspace(whole_x());
  const std::int64_t kernels = aligned(product_scratch_bytes(compute));
  return std::max(
      std::max(kernels, workspace) + std::max(gathered + state_bytes(), sum_bytes(whole_x())),
      kernels + gathered + sum_bytes(whole_x()) + workspace);
}

ops::VocabBlock ShardedLoss::block(const LayerCall& call, int k) const {
  const View padded = call.kept_by_forward[static_cast<std::size_t>(kFirstLogits + k)];
  return {padded.slice(1, 0, parameter(k).value.size(0)), attributes().first[k]};
}

void ShardedLoss::forward(ops::Compute& compute, const LayerCall& call) {
  const std::int64_t gathered = divided() ? whole_x().bytes() : 0;
  const ops::ScratchClaim claim(compute, gathered + state_bytes());
  const View x = divided()
                     ? gather(compute, call.x, View(claim.data(), call.x.dtype(), whole_x().shape))
                     : call.x;
  const ConstView targets = call.reads[kTargets];
  const std::int64_t shards = std::int64_t{axis().local} * axis().devices;
  const View states(claim.data() + gathered, DType::F32, {shards * kNumbers, axis().tokens});
  for (int k = 0; k < axis().local; ++k) {
    const ops::VocabBlock logits = block(call, k);
    ops::matmul(compute, x, ConstView(parameter(k).value).transposed(), logits.logits);
    ops::cross_entropy_partial(compute, logits, targets,
                               state_of(states, axis().rank * axis().local + k), Write::Overwrite);
  }
  if (axis().devices > 1) group().all_gather(states);
  const ops::SoftmaxState all = state_of(states, 0);
  for (std::int64_t s = 1; s < shards; ++s) {
    ops::cross_entropy_merge(compute, state_of(states, s), all);
  }
  ops::cross_entropy_finish(compute, all, targets, call.y, call.kept_by_forward[kLse]);
}

View ShardedLoss::input_of_shards(ops::Compute& compute, const LayerCall& call, std::byte* slots) {
  const PartialSums sums = partial_sums(whole_x(), call.dx, slots);
  for (int k = 0; k < axis().local; ++k) {
    const ops::VocabBlock logits = block(call, k);
    ops::cross_entropy_backward(compute, logits, call.reads[kTargets], call.kept_by_forward[kLse],
                                call.loss_scale);
    ops::matmul(compute, logits.logits, parameter(k).value, sums[k]);
    progress();
    sums.merge(compute, k);
  }
  return sums[0];
}

void ShardedLoss::weight_of_shards(ops::Compute& compute, const LayerCall& call, ConstView x) {
  for (int k = 0; k < axis().local; ++k) {
    ops::matmul(compute, ConstView(block(call, k).logits).transposed(), x, gradient(k, call),
                {.write = call.gradient});
    progress();
  }
}

void ShardedLoss::backward_input(ops::Compute& compute, const LayerCall& call) {
  const ops::ScratchClaim claim(compute, sum_bytes(whole_x()));
  const View dx = reduce(input_of_shards(compute, call, claim.data()));
  if (divided()) ops::copy(compute, dx, call.dx);
}

void ShardedLoss::backward_weight(ops::Compute& compute, const LayerCall& call) {
  const ops::ScratchClaim claim(compute, divided() ? whole_x().bytes() : 0);
  weight_of_shards(
      compute, call,
      divided() ? gather(compute, call.x, View(claim.data(), call.x.dtype(), whole_x().shape))
                : call.x);
}

void ShardedLoss::backward(ops::Compute& compute, const LayerCall& call) {
  if (axis().devices == 1) return Layer::backward(compute, call);
  const std::int64_t sums = sum_bytes(whole_x());
  const std::int64_t gathered = divided() ? whole_x().bytes() : 0;
  const ops::ScratchClaim claim(compute, sums + gathered + reduce_workspace(whole_x()));
  View x = call.x;
  comm::Pending x_arrives;
  if (divided()) {
    x = View(claim.data() + sums, call.x.dtype(), whole_x().shape);
    x_arrives = start_gather(compute, call.x, x);
  }
  const View sum = input_of_shards(compute, call, claim.data());
  comm::Pending dx_leaves = start_reduce(sum, claim.data() + sums + gathered);
  x_arrives.wait();
  weight_of_shards(compute, call, x);
  dx_leaves.wait();
  if (divided()) ops::copy(compute, group().own_rows(sum), call.dx);
}

}  // namespace cleave::parallel
