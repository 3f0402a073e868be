#include "cleave/parallel/sharded_layer.h"

#include "cleave/ops/elementwise.h"

namespace cleave::parallel {

std::int64_t ShardedLayer::sum_bytes(const TensorSpec& tensor) const {
  const int slots = PartialSums::slots(axis_.local) - (divided() ? 0 : 1);
  return slots * PartialSums::slot_bytes(tensor.shape.elements(), tensor.dtype);
}

PartialSums ShardedLayer::partial_sums(const TensorSpec& whole, View out, std::byte* room) const {
  // Where the tokens are divided, `out` is too short to be the first slot.
  if (!divided()) return PartialSums(out, room);
  return PartialSums(View(room, whole.dtype, whole.shape), room + whole.bytes());
}

View ShardedLayer::gather(ops::Compute& compute, ConstView own, View whole) {
  ops::copy(compute, own, group_->own_rows(whole));
  group_->all_gather(whole);
  return whole;
}

comm::Pending ShardedLayer::start_gather(ops::Compute& compute, ConstView own, View whole) {
  ops::copy(compute, own, group_->own_rows(whole));
  return group_->start_all_gather(whole);
}

comm::Pending ShardedLayer::start_reduce(View sum, std::byte* workspace) {
  return divided() ? group_->start_reduce_scatter(sum, workspace)
                   : group_->start_all_reduce(sum, workspace);
}

std::int64_t ShardedLayer::reduce_workspace(const TensorSpec& whole) const {
  return TensorGroup::workspace_bytes(whole.bytes(), axis_.devices);
}

View ShardedLayer::reduce(View sum) {
  if (divided()) return group_->reduce_scatter(sum);
  if (axis_.devices > 1) group_->all_reduce(sum);
  return sum;
}

}  // namespace cleave::parallel
