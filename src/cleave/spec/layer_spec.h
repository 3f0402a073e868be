#pragma once

#include <cstdint>
#include <string>
#include <variant>
#include <vector>

#include "cleave/base/units.h"
#include "cleave/spec/attention_spec.h"
#include "cleave/spec/dtype.h"
#include "cleave/spec/matmul_spec.h"
#include "cleave/spec/shape.h"

namespace cleave {

/// The last pass of a microbatch that reads a tensor. After it, the memory is free.
enum class Until : std::uint8_t { Forward, Input, Weight };

struct TensorSpec {
  std::string name;
  DType dtype = DType::F32;
  Shape shape;

  /// With the padding that keeps the next tensor aligned.
  std::int64_t bytes() const { return aligned(shape.elements() * size_of(dtype)); }
};

/// A tensor that a pass writes for a later one.
struct KeptTensor {
  TensorSpec tensor;
  Until until = Until::Input;
};

enum class Decay : std::uint8_t { No, Yes };

/// How a parameter begins. A deviation of zero means the constant `mean`.
struct Init {
  float mean = 0;
  float deviation = 0;
};

/// Indices [first, first + extent) along `dim` of a parameter, and what checkpoints know them as:
/// [start, start + extent) along the same dim of the tensor `name`, which has `whole` of them.
struct Piece {
  std::string name;
  std::int64_t first = 0;
  std::int64_t extent = 0;
  int dim = 0;
  std::int64_t start = 0;
  std::int64_t whole = extent;
  bool copy = false;  ///< its owner, who counts and saves it, is elsewhere
};

/// A weight as the layer computes with it. Fused weights (q, k and v in one product) are several
/// pieces, one behind the other.
struct ParameterSpec {
  std::string name;
  Shape shape;
  Init init;
  Decay decay = Decay::No;
  std::vector<Piece> pieces = {};  ///< cover all of it, in order
  std::string tied_to = {};  ///< name of the parameter whose values this one shares; empty: its own
  bool trainable = true;     ///< false: it keeps the values that it begins with

  std::int64_t elements() const { return shape.elements(); }
};

// What a kind of layer needs to know beyond its shapes.
struct NormAttributes {
  float epsilon = 1e-5f;
};
struct LinearAttributes {
  Transpose weight = Transpose::No;  ///< No: [in, out] as GPT-2 stores it; Yes: [out, in] as Llama
  Bias bias = Bias::None;
};
struct AttentionAttributes {
  AttentionShape shape;
  float rope_theta = 0;    ///< 0: no rotary positions
  std::int64_t cache = 0;  ///< generating: room for the keys and values of this many tokens
};
struct EmbeddingAttributes {
  std::int64_t sequence = 0;
  std::int64_t first = 0;       ///< entry of the vocabulary that the table begins with
  std::int64_t vocabulary = 0;  ///< entries; ids that the table does not have yield zeros
};
struct LossAttributes {
  std::int64_t vocabulary = 0;
  std::int64_t blocks = 1;  ///< vocabulary blocks; 1: the logits are kept whole
};

struct LayerSpec;

/// What a layer of shards adds after their sum.
enum class AfterSum : std::uint8_t { Nothing, Bias, Positions };

/// Columns [first, first + columns) of a tensor that every shard of a group of `shards` neighbours
/// computes for itself: keys and values of a head that they share.
struct SharedColumns {
  std::int64_t first = 0;
  std::int64_t columns = 0;
  int shards = 1;
};

/// Where a layer of a chain of shards finds its tensors: indices into what the wrapping layer
/// keeps.
struct ShardLink {
  int y = -1;             ///< kept_by_forward; -1: F alone needs it
  int kept = 0;           ///< kept_by_forward: the first of its own
  int dx = -1;            ///< kept_by_input; -1: I alone needs it
  int kept_by_input = 0;  ///< kept_by_input: the first of its own
};

/// The shards of a device among all.
struct ShardAxis {
  int devices = 1;
  int rank = 0;
  int local = 1;                ///< shards of each device
  std::int64_t tokens = 0;      ///< of a microbatch
  std::int64_t own_tokens = 0;  ///< that the device holds outside the shards
};

struct ShardedAttributes {
  ShardAxis axis;
  std::vector<std::vector<LayerSpec>> chains;  ///< [shard of the device]
  std::vector<std::vector<ShardLink>> links;   ///< [shard of the device][layer]
  std::int64_t sequence = 0;
  AfterSum after = AfterSum::Nothing;
  SharedColumns shared = {};
};

struct ShardedLossAttributes {
  ShardAxis axis;
  std::vector<std::int64_t> first;  ///< [shard of the device] entry of the vocabulary
};

struct TokenSlicedAttributes {
  ShardAxis axis;
  int slices = 1;                ///< of the device's tokens
  std::vector<LayerSpec> slice;  ///< one: the layer for the tokens of a slice
};

using Attributes = std::variant<std::monostate, NormAttributes, LinearAttributes,
                                AttentionAttributes, EmbeddingAttributes, LossAttributes,
                                ShardedAttributes, ShardedLossAttributes, TokenSlicedAttributes>;

/// Everything about a layer that must be known before anything runs. Nothing else states these
/// numbers: memory plans, FLOPs, costs and the layer itself all read them here.
///
/// Layers form a chain: the y of one is the x of the next. A layer may also read one earlier tensor
/// of its segment, `skip` (residual connections).
struct LayerSpec {
  std::string
      kind;  ///< which class computes it: "linear", "layernorm", …, or one of the user's own
  std::string name;
  TensorSpec x;
  TensorSpec y;
  Until x_until = Until::Forward;  ///< who reads x last: F, I or W of this layer
  Until y_until = Until::Forward;  ///< who reads y last, of this layer
  Until dy_until = Until::Input;   ///< Input, or Weight if W reads dy
  bool dx_is_dy = false;           ///< I copies nothing: the gradient passes through
  bool cheap = false;              ///< element by element: y is computed again rather than kept
  int skip = -1;                   ///< y = x + the x of layer `skip` of this segment
  std::vector<ParameterSpec> parameters;
  std::vector<TensorSpec> constants;  ///< tables that never change; one copy per stage and name
  std::vector<TensorSpec> caches;     ///< generating: what F adds to from call to call
  std::vector<TensorSpec> sums;       ///< lasting, f32: what W adds to besides the gradients
  std::vector<KeptTensor> kept_by_forward;  ///< besides x and y
  std::vector<TensorSpec> kept_by_input;    ///< besides dy; read by W
  std::vector<MatmulSpec> forward;          ///< products of F
  std::vector<MatmulSpec> backward_input;
  std::vector<MatmulSpec> backward_weight;
  std::int64_t scratch = 0;  ///< bytes that its own kernels need besides those of the products
  Attributes attributes;

  template <class T>
  const T& as() const {
    return std::get<T>(attributes);
  }
};

/// The grain of recompute, gathering and reducing, and of cutting a model into stages: the
/// embedding, a block, the head.
struct SegmentSpec {
  std::string name;
  std::vector<LayerSpec> layers;
};

std::int64_t parameter_count(const LayerSpec& layer);
std::int64_t parameter_count(const SegmentSpec& segment);

/// Floating-point operations of the products of all three passes.
std::int64_t flops(const LayerSpec& layer);
std::int64_t flops(const SegmentSpec& segment);

}  // namespace cleave
