#pragma once

#include <memory>
#include <vector>

#include "cleave/parallel/sharded_layer.h"

namespace cleave::parallel {

/// y = the sum over all shards of chain(x), and what is added once after it (spec::sharded).
class Sharded : public ShardedLayer {
 public:
  Sharded(const LayerSpec& spec, const LayerFactory& make, TensorGroup* group);

  void move_value(int index, View value) override;
  /// x [tokens, in] -> y [tokens, out]
  void forward(ops::Compute& compute, const LayerCall& call) override;
  /// dy [tokens, out] -> dx [tokens, in]
  void backward_input(ops::Compute& compute, const LayerCall& call) override;
  void backward_weight(ops::Compute& compute, const LayerCall& call) override;
  /// x is gathered for W while I computes, or W of the layers after the first; dx is summed up
  /// while W computes.
  void backward(ops::Compute& compute, const LayerCall& call) override;
  std::int64_t scratch_bytes(ops::Compute& compute) const override;

 protected:
  /// Also gives the layers of the chains their parameters.
  void fill_constants() override;

 private:
  /// Bytes of scratch that a pass takes for tensors of its own.
  struct Room {
    std::int64_t gathered = 0;  ///< x with the tokens of all devices
    std::int64_t sums = 0;      ///< partial sums besides the first, or all
    std::int64_t inside = 0;    ///< between layers of a chain
    std::int64_t shared = 0;    ///< gradients of shared heads

    std::int64_t bytes() const { return gathered + sums + inside + shared; }
  };

  const ShardedAttributes& attributes() const { return spec().as<ShardedAttributes>(); }
  int shards() const { return static_cast<int>(chains_.size()); }
  int layers() const { return static_cast<int>(chains_.front().size()); }
  const LayerSpec& inner(int layer) const { return attributes().chains.front()[layer]; }
  bool from_data() const { return attributes().from_data; }

  Room forward_room() const;
  Room input_room() const;
  Room backward_room() const;
  std::int64_t shared_bytes() const;

  /// What the layers of shard k are called with, but for x, y, dx and dy.
  LayerCall inner_call(const LayerCall& call, int k, int layer) const;
  /// y, or dx, of a layer inside a chain: where it is kept, else in the scratch at `inside`, which
  /// may be null where what is not kept is not read.
  View inner_y(const LayerCall& call, int k, int layer, std::byte* inside) const;
  View inner_dx(const LayerCall& call, int k, int layer, std::byte* inside) const;

  /// I of all shards: the sum of their dx over this device. At `inside` there is room for
  /// Room::inside, and after that for Room::shared.
  View input_of_chains(ops::Compute& compute, const LayerCall& call, ConstView dy, std::byte* slots,
                       std::byte* inside);
  /// W of all shards, x and dy with all tokens; x may still be arriving.
  void weight_of_chains(ops::Compute& compute, const LayerCall& call, View x, ConstView dy,
                        comm::Pending x_arrives);

  void add_after(ops::Compute& compute, ConstView sum, View y);
  void add_after_gradient(ops::Compute& compute, ConstView dy, const LayerCall& call);
  void share_columns(ops::Compute& compute, const LayerCall& call, std::byte* room);

  std::vector<std::vector<std::unique_ptr<Layer>>> chains_;  ///< [shard of the device][layer]
};

}  // namespace cleave::parallel
