#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "cleave/spec/graph.h"
#include "cleave/spec/layers.h"

namespace cleave {

/// Low-rank adapters: beside a weight W of a linear layer there is scale · B · A, of which A and B
/// learn.
struct Lora {
  std::int64_t rank = 0;  ///< 0: no adapters
  double alpha = 0;
  std::vector<std::string> targets = {};  ///< patterns as model.train has them, or kAllLinear
  bool rslora = false;                    ///< the scale is alpha / √rank instead of alpha / rank

  static constexpr const char* kAllLinear = "all-linear";

  double scale() const;

  friend bool operator==(const Lora&, const Lora&) = default;
};

/// A tensor of a linear layer's weight that has an adapter.
struct LoraTarget {
  std::string tensor;       ///< as checkpoints know it
  std::int64_t column = 0;  ///< of the layer's y, where it begins

  friend bool operator==(const LoraTarget&, const LoraTarget&) = default;
};

/// Gives an adapter to every tensor of a linear layer that a target names. Throws UserError for a
/// target that names none.
///
/// A linear layer becomes two layers, so that what an adapter has in common for all tensor shards
/// is outside them, and what is inside is cut by the rule of the weight:
///
///     by columns, or whole:   x ─ lora_down ─ [x, s·x·Aᵀ] ─ lora_linear ─ x·W + bias + s·x·Aᵀ·Bᵀ
///     by rows:                x ─ lora_row ─ [x·W, x·Aᵀ] ─ lora_up ─ x·W + bias + s·x·Aᵀ·Bᵀ
///
/// where the sum over shards of a layer by rows is that of both parts of its y.
void add_adapters(Graph& graph, const Lora& lora);

/// "h.0.attn.lora_A.weight" for "h.0.attn.weight", and the same with lora_B.
std::string lora_down_name(const std::string& tensor);
std::string lora_up_name(const std::string& tensor);

/// Whether a tensor of that name is one of an adapter's.
bool is_adapter(std::string_view name);

/// "h.0.attn" for "h.0.attn.weight".
std::string module_of(const std::string& tensor);

/// A tensor of a linear layer's weight.
struct LinearTensor {
  std::string name;
  std::int64_t in = 0;
  std::int64_t out = 0;
  Transpose stored = Transpose::No;  ///< No: [in, out]; Yes: [out, in]
  bool adapted = false;              ///< it has an adapter
};

/// Those of all linear layers, with adapters or without, in order.
std::vector<LinearTensor> linear_tensors(const Graph& graph);

// The attributes of the kinds of layers that adapters are made of.
struct LoraDownAttributes {
  float scale = 1;

  friend bool operator==(const LoraDownAttributes&, const LoraDownAttributes&) = default;
};
struct LoraLinearAttributes {
  LayerSpec linear;  ///< without adapters; its parameters are the first ones of the layer
  std::vector<LoraTarget> targets = {};

  friend bool operator==(const LoraLinearAttributes&, const LoraLinearAttributes&) = default;
};
struct LoraUpAttributes {
  float scale = 1;
  Bias bias = Bias::None;

  friend bool operator==(const LoraUpAttributes&, const LoraUpAttributes&) = default;
};

/// The linear layer in a lora_linear or lora_row, with the parameters as they are now.
LayerSpec linear_in(const LayerSpec& adapted);

namespace spec {

/// kind "lora_down": x [tokens, in] -> y [tokens, in + ranks]: x, then scale · x · Aᵀ. Parameter: A
/// [ranks, in], those of several targets one below the other.
LayerSpec lora_down(const std::string& name, const Flow& flow, const ParameterSpec& down,
                    float scale);

/// kind "lora_linear": x [tokens, in + ranks] -> y [tokens, out]: what `linear` makes of the first
/// part, to whose columns those of each target are added: its ranks of x times its Bᵀ. Parameters:
/// those of `linear`, then B [columns, rank] of each target.
LayerSpec lora_linear(const LayerSpec& linear, const std::vector<LoraTarget>& targets,
                      const std::vector<ParameterSpec>& ups);

/// kind "lora_row": x [tokens, in] -> y [tokens, out + rank]: what `linear`, which has no bias,
/// makes of it, then x · Aᵀ. Parameters: the weight, A [rank, in].
LayerSpec lora_row(const LayerSpec& linear, const ParameterSpec& down);

/// kind "lora_up": x [tokens, out + rank] -> y [tokens, out]: its first part, plus the bias, plus
/// scale · its second part · Bᵀ. Parameters: B [out, rank], then the bias if there is one.
LayerSpec lora_up(const std::string& name, const Flow& flow,
                  const std::vector<ParameterSpec>& parameters, float scale);

}  // namespace spec
}  // namespace cleave
