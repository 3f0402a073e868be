#include "cleave/parallel/tensor_group.h"

#include "cleave/ops/scratch_claim.h"
#include "cleave/shard/tensor_share.h"

namespace cleave::parallel {
namespace {

std::span<std::byte> bytes_of(View view) {
  CLEAVE_CHECK(view.dense(), "a sum of ", to_string(view.shape()), " that is not dense");
  return {view.bytes(), static_cast<std::size_t>(view.byte_count())};
}

/// What a layer has on its way at once: dy, x, dx, and what its norm adds up.
constexpr std::size_t kInFlight = 4;

}  // namespace

TensorGroup::TensorGroup(ops::Compute& compute, comm::Communicator& world,
                         std::span<const int> members, int sharers, std::span<std::byte> on_host)
    : compute_(compute),
      f32_(compute, DType::F32),
      bf16_(compute, DType::BF16),
      all_(world.group(members)),
      borders_(members.size() + 1),
      on_host_(on_host, kInFlight) {
  all_->make_room(kInFlight);
  if (sharers < 2) return;
  const int first = all_->rank() / sharers * sharers;
  sharers_ = world.group(
      members.subspan(static_cast<std::size_t>(first), static_cast<std::size_t>(sharers)));
  sharers_->make_room(kInFlight);
}

std::int64_t TensorGroup::workspace_bytes(std::int64_t bytes, int devices) {
  if (devices < 2) return 0;
  return aligned(static_cast<std::int64_t>(
      comm::single_round_workspace(static_cast<std::size_t>(bytes), devices)));
}

std::int64_t TensorGroup::exchange_host_bytes(std::int64_t bytes, int devices) {
  const auto workspace = static_cast<std::size_t>(workspace_bytes(bytes, devices));
  return aligned(static_cast<std::int64_t>(
      comm::all_reduce_host_bytes(static_cast<std::size_t>(bytes), workspace)));
}

std::int64_t TensorGroup::host_bytes(std::int64_t largest_exchange) {
  return static_cast<std::int64_t>(kInFlight) * largest_exchange;
}

comm::HostRoom TensorGroup::room_for(View values, int members) {
  return on_host_.take(static_cast<std::size_t>(exchange_host_bytes(values.byte_count(), members)));
}

comm::Reduction TensorGroup::reduction(View values, std::byte* workspace, int members) {
  const auto bytes = static_cast<std::size_t>(workspace_bytes(values.byte_count(), members));
  return {.values = bytes_of(values),
          .workspace = {workspace, bytes},
          .adder = adder(values.dtype()),
          .on_host = room_for(values, members)};
}

comm::Pending TensorGroup::start_all_reduce(View values, std::byte* workspace) {
  return all_->all_reduce(reduction(values, workspace, all_->size()));
}

comm::Pending TensorGroup::start_reduce_scatter(View values, std::byte* workspace) {
  return all_->reduce_scatter(reduction(values, workspace, all_->size()), row_borders(values));
}

comm::Pending TensorGroup::start_all_gather(View whole) {
  return all_->all_gather(bytes_of(whole), row_borders(whole), room_for(whole, all_->size()));
}

void TensorGroup::all_reduce(View values) {
  const ops::ScratchClaim workspace(compute_, workspace_bytes(values.byte_count(), all_->size()));
  start_all_reduce(values, workspace.data()).wait();
}

void TensorGroup::all_reduce_shared(View values) {
  CLEAVE_CHECK(sharers_ != nullptr, "no device shares heads with this one");
  const int members = sharers_->size();
  const ops::ScratchClaim workspace(compute_, workspace_bytes(values.byte_count(), members));
  sharers_->all_reduce(reduction(values, workspace.data(), members)).wait();
}

std::span<const std::size_t> TensorGroup::row_borders(View whole) {
  const std::int64_t row = whole.byte_count() / whole.size(0);
  for (std::size_t i = 0; i < borders_.size(); ++i)
    borders_[i] = static_cast<std::size_t>(
        row * row_border(whole.size(0), static_cast<std::int64_t>(i), all_->size()));
  return borders_;
}

View TensorGroup::own_rows(View whole) const {
  const std::int64_t first = row_border(whole.size(0), all_->rank(), all_->size());
  return whole.slice(0, first, row_border(whole.size(0), all_->rank() + 1, all_->size()) - first);
}

View TensorGroup::reduce_scatter(View values) {
  const ops::ScratchClaim workspace(compute_, workspace_bytes(values.byte_count(), all_->size()));
  start_reduce_scatter(values, workspace.data()).wait();
  return own_rows(values);
}

void TensorGroup::all_gather(View whole) {
  start_all_gather(whole).wait();
}

}  // namespace cleave::parallel
