#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <vector>

#include "cleave/comm/communicator.h"
#include "cleave/comm/tensor_adder.h"
#include "cleave/ops/compute.h"
#include "cleave/tensor/view.h"

namespace cleave::parallel {

/// The devices that share the layers of a stage: one end of the tensor axis, as a device sees it.
class TensorGroup {
 public:
  /// `members`: ranks in `world`, in the order of their shards, this device among them; all of them
  /// make theirs at the same time. `sharers` neighbours have the same key-value heads. `on_host`:
  /// host_bytes() of the largest exchange, where no message reaches the device's memory.
  TensorGroup(ops::Compute& compute, comm::Communicator& world, std::span<const int> members,
              int sharers, std::span<std::byte> on_host = {});

  /// `values`, dense, become the sum over the group. Works in the device's scratch.
  void all_reduce(View values);
  /// The same over the devices that share key-value heads.
  void all_reduce_shared(View values);

  /// Rows of `values`, as many for each device or one more for some (row_border), become their sum
  /// over the group, on one device each; returns this device's rows.
  View reduce_scatter(View values);
  /// Fills the rows of the others in `whole`; this device's are there.
  void all_gather(View whole);
  /// The same three, which only begin; `workspace` has workspace_bytes() and stays until the end.
  comm::Pending start_all_reduce(View values, std::byte* workspace);
  comm::Pending start_reduce_scatter(View values, std::byte* workspace);
  comm::Pending start_all_gather(View whole);
  /// All of them, for what is no tensor of a layer.
  comm::Communicator& members() { return *all_; }

  /// Between products: moves on what is on its way.
  void progress() { all_->progress(); }

  /// This device's rows of `whole`.
  View own_rows(View whole) const;

  /// Scratch that a sum of `bytes` over `devices` takes.
  static std::int64_t workspace_bytes(std::int64_t bytes, int devices);

  /// What an exchange of so many bytes over `devices` passes through on the host, and what a group
  /// needs for as many at once as layers have on their way.
  static std::int64_t exchange_host_bytes(std::int64_t bytes, int devices);
  static std::int64_t host_bytes(std::int64_t largest_exchange);

 private:
  const comm::Adder& adder(DType dtype) const { return dtype == DType::F32 ? f32_ : bf16_; }
  comm::Reduction reduction(View values, std::byte* workspace, int members);
  comm::HostRoom room_for(View values, int members);
  std::span<const std::size_t> row_borders(View whole);

  ops::Compute& compute_;
  comm::TensorAdder f32_;
  comm::TensorAdder bf16_;
  std::unique_ptr<comm::Communicator> all_;
  std::unique_ptr<comm::Communicator> sharers_;  ///< null: nobody shares
  std::vector<std::size_t> borders_;
  comm::HostSlots on_host_;
};

}  // namespace cleave::parallel
