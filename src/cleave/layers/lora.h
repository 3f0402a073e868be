#pragma once

#include "cleave/layers/linear.h"
#include "cleave/spec/lora.h"

namespace cleave {

/// x [tokens, in] -> y [tokens, in + ranks]: x, then scale · x · Aᵀ.
class LoraDown : public Layer {
 public:
  using Layer::Layer;
  void forward(ops::Compute& compute, const LayerCall& call) override;
  void backward_input(ops::Compute& compute, const LayerCall& call) override;
  void backward_weight(ops::Compute& compute, const LayerCall& call) override;
};

/// A linear layer that is part of one whose x or y has more features than its own.
class LoraWithLinear : public Layer {
 public:
  explicit LoraWithLinear(LayerSpec spec)
      : Layer(std::move(spec)), linear_(linear_in(this->spec())) {}

  void move_value(int index, View value) override;

 protected:
  void fill_constants() override;
  int linear_parameters() const { return static_cast<int>(linear_.spec().parameters.size()); }

  /// The passes of the linear layer, on the first features of what each reads and writes.
  void linear_forward(ops::Compute& compute, const LayerCall& call);
  void linear_input(ops::Compute& compute, const LayerCall& call);
  void linear_weight(ops::Compute& compute, const LayerCall& call);

  Linear linear_;
};

/// x [tokens, in + ranks] -> y [tokens, out]: the linear layer, then what the targets add.
class LoraLinear : public LoraWithLinear {
 public:
  using LoraWithLinear::LoraWithLinear;
  void forward(ops::Compute& compute, const LayerCall& call) override;
  void backward_input(ops::Compute& compute, const LayerCall& call) override;
  void backward_weight(ops::Compute& compute, const LayerCall& call) override;

 private:
  /// Calls `visit(parameter, ranks, columns)` for every target: a function that takes the part of
  /// an x, and one that takes the part of a y.
  template <class Visit>
  void for_each_target(Visit&& visit) const;
};

/// x [tokens, in] -> y [tokens, out + rank]: the linear layer, then x · Aᵀ.
class LoraRow : public LoraWithLinear {
 public:
  using LoraWithLinear::LoraWithLinear;
  void forward(ops::Compute& compute, const LayerCall& call) override;
  void backward_input(ops::Compute& compute, const LayerCall& call) override;
  void backward_weight(ops::Compute& compute, const LayerCall& call) override;
};

/// x [tokens, out + rank] -> y [tokens, out]: x's first part + bias + scale · its second part · Bᵀ.
class LoraUp : public Layer {
 public:
  using Layer::Layer;
  void forward(ops::Compute& compute, const LayerCall& call) override;
  void backward_input(ops::Compute& compute, const LayerCall& call) override;
  void backward_weight(ops::Compute& compute, const LayerCall& call) override;
};

}  // namespace cleave
