#pragma once

#include <memory>
#include <vector>

#include "cleave/parallel/sharded_layer.h"

namespace cleave::parallel {

/// A norm whose weight gradients are summed in slices of tokens, as many as the grid has shards
/// (spec::token_sliced): each slice on its own over the microbatches of a data shard, then all of
/// them by the pairwise tree. Where the tokens are divided, a device has the slices of its tokens,
/// and the tree goes on over the devices.
class TokenSliced : public ShardedLayer {
 public:
  TokenSliced(const LayerSpec& spec, const LayerFactory& make, TensorGroup* group);

  void move_value(int index, View value) override;
  void forward(ops::Compute& compute, const LayerCall& call) override;
  void backward_input(ops::Compute& compute, const LayerCall& call) override;
  void backward_weight(ops::Compute& compute, const LayerCall& call) override;
  bool adds_branch() const override { return slices_[0]->adds_branch(); }
  std::int64_t scratch_bytes(ops::Compute& compute) const override;

 protected:
  void fill_constants() override;

 private:
  int slices() const { return static_cast<int>(slices_.size()); }
  /// The call of one slice, whose views of kept tensors go to `room`.
  LayerCall slice_of(const LayerCall& call, int slice);
  void add_up(ops::Compute& compute, const LayerCall& call);

  std::vector<std::unique_ptr<Layer>> slices_;
  std::vector<std::int64_t> first_row_;  ///< [slice]
  std::vector<View> room_;
};

}  // namespace cleave::parallel
