#pragma once

#include <memory>

#include "cleave/parallel/sharded_layer.h"
#include "cleave/shard/gathered.h"

namespace cleave::parallel {

/// A layer that every device of the group computes with all rows, while activations around it are
/// divided by rows (shard::gathered).
class Gathered : public ShardedLayer {
 public:
  Gathered(const LayerSpec& spec, const LayerFactory& make, TensorGroup* group);

  void move_value(int index, View value) override;
  void forward(ops::Compute& compute, const LayerCall& call) override;
  void backward_input(ops::Compute& compute, const LayerCall& call) override;
  void backward_weight(ops::Compute& compute, const LayerCall& call) override;
  std::int64_t scratch_bytes(ops::Compute& compute) const override;

 protected:
  /// Also gives the layer its parameters.
  void fill_constants() override;

 private:
  const GatheredAttributes& attributes() const { return spec().as<GatheredAttributes>(); }
  const LayerSpec& whole() const { return attributes().whole[0]; }

  /// Bytes of scratch for tensors with all rows that nothing keeps.
  std::int64_t forward_room() const;
  std::int64_t input_room() const;

  /// The call of the layer with all rows; x, y, dx and dy as far as they are kept.
  LayerCall whole_call(const LayerCall& call) const;

  std::unique_ptr<Layer> layer_;
};

}  // namespace cleave::parallel
