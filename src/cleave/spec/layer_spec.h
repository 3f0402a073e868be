#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "cleave/base/units.h"
#include "cleave/spec/attention_spec.h"
#include "cleave/spec/attributes.h"
#include "cleave/spec/dtype.h"
#include "cleave/spec/matmul_spec.h"
#include "cleave/spec/norm_weight.h"
#include "cleave/spec/rope_spec.h"
#include "cleave/spec/shape.h"

namespace cleave {

/// The last pass of a microbatch that reads a tensor. After it, the memory is free.
enum class Until : std::uint8_t { Forward, Input, Weight };

struct TensorSpec {
  std::string name;
  DType dtype = DType::F32;
  Shape shape;
  /// Of its gradient, where that is another: one codec for the way there, another for the way back.
  std::optional<Shape> coded_gradient = {};

  const Shape& gradient_shape() const { return coded_gradient ? *coded_gradient : shape; }

  /// With the padding that keeps the next tensor aligned.
  std::int64_t bytes() const { return aligned(shape.elements() * size_of(dtype)); }
  std::int64_t gradient_bytes() const {
    return aligned(gradient_shape().elements() * size_of(dtype));
  }

  friend bool operator==(const TensorSpec&, const TensorSpec&) = default;
};

/// A tensor that a pass writes for a later one.
struct KeptTensor {
  TensorSpec tensor;
  Until until = Until::Input;

  friend bool operator==(const KeptTensor&, const KeptTensor&) = default;
};

/// A tensor that a layer reads besides x: it comes in at a port of the segment.
struct ReadTensor {
  TensorSpec tensor;
  std::string port;
  Until until = Until::Weight;
  bool gradient = false;  ///< I writes its gradient, where one is wanted
  bool may_lack = false;  ///< the layer also runs where nothing arrives

  friend bool operator==(const ReadTensor&, const ReadTensor&) = default;
};

enum class Decay : std::uint8_t { No, Yes };

/// How a parameter begins. A deviation of zero means the constant `mean`.
struct Init {
  float mean = 0;
  float deviation = 0;

  friend bool operator==(const Init&, const Init&) = default;
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

  friend bool operator==(const Piece&, const Piece&) = default;
};

/// The rule by which a parameter may be cut among the shards of its layer.
enum class CutRule : std::uint8_t {
  Whole,       ///< every device holds all of it
  Column,      ///< by the features that the layer makes; those of attention go by heads
  Row,         ///< by the features that the layer reads; the shards' results are added up
  Vocabulary,  ///< by entries, which need not be equally many for each shard
};

/// Units that stay together when a parameter is cut: a head, or a single feature.
struct CutSpan {
  std::int64_t units = 0;
  std::int64_t width = 1;  ///< elements of each
  bool shareable = false;  ///< where there are fewer units than shards, neighbours share one
  std::string what = {};   ///< the config key that says how many there are, for errors

  friend bool operator==(const CutSpan&, const CutSpan&) = default;
};

struct Cut {
  CutRule rule = CutRule::Whole;
  int dim = 0;                      ///< of the parameter
  std::vector<CutSpan> spans = {};  ///< cover the dim, in order; each is cut on its own

  friend bool operator==(const Cut&, const Cut&) = default;
};

/// How the values of a parameter lie in memory.
enum class Held : std::uint8_t {
  Plain,    ///< in the model's format
  Packed,   ///< row by row as int8 with scales: spec/packed_rows.h
  Rounded,  ///< in the model's format, with the numbers that packed rows have
};

/// A weight as the layer computes with it. Fused weights (q, k and v in one product) are several
/// pieces, one after the other.
struct ParameterSpec {
  std::string name;
  Shape shape;
  Init init;
  Decay decay = Decay::No;
  std::vector<Piece> pieces = {};  ///< cover all of it, in order
  std::string tied_to = {};  ///< name of the parameter whose values this one shares; empty: its own
  bool trainable = true;     ///< false: it keeps the values that it begins with
  Cut cut = {};
  /// Names of the tensors that the optimizer keeps beside it, each f32 and of its shape.
  std::vector<std::string> slots = {};
  bool whole_pieces = false;  ///< its optimizer updates each piece as one
  bool hidden = false;        ///< a matrix from hidden features to hidden features
  bool idle = false;          ///< no result depends on it: it is saved, and never trained
  Held held = Held::Plain;    ///< another than Plain only if it is not trained

  std::int64_t elements() const { return shape.elements(); }

  friend bool operator==(const ParameterSpec&, const ParameterSpec&) = default;
};

// The attributes of cleave's own kinds of layers.
struct NormAttributes {
  float epsilon = 1e-5f;
  NormWeight form = NormWeight::Plain;  ///< of root-mean-square norms

  friend bool operator==(const NormAttributes&, const NormAttributes&) = default;
};
struct QkNormAttributes {
  /// Columns of a token that are normed: `rows` rows of `width` elements, from column `first` on.
  struct Columns {
    std::int64_t first = 0;
    std::int64_t rows = 0;
    std::int64_t width = 0;

    friend bool operator==(const Columns&, const Columns&) = default;
  };
  std::vector<Columns> parts;  ///< of q and of k; what follows them stays as it is
  float epsilon = 1e-6f;
  NormWeight form = NormWeight::Plain;

  friend bool operator==(const QkNormAttributes&, const QkNormAttributes&) = default;
};
struct LinearAttributes {
  Transpose weight = Transpose::No;  ///< No: [in, out] as GPT-2 stores it; Yes: [out, in] as Llama
  Bias bias = Bias::None;

  friend bool operator==(const LinearAttributes&, const LinearAttributes&) = default;
};
struct AttentionAttributes {
  AttentionShape shape;
  Rope rope;
  std::int64_t cache = 0;  ///< generating: room for the keys and values of this many tokens

  friend bool operator==(const AttentionAttributes&, const AttentionAttributes&) = default;
};
struct EmbeddingAttributes {
  std::int64_t sequence = 0;
  std::int64_t first = 0;       ///< entry of the vocabulary that the table begins with
  std::int64_t vocabulary = 0;  ///< entries; ids that the table does not have yield zeros
  float scale = 1;              ///< of the table's rows
  std::int64_t still = -1;      ///< an entry that learns nothing by being read; -1: none

  friend bool operator==(const EmbeddingAttributes&, const EmbeddingAttributes&) = default;
};
struct LossAttributes {
  std::int64_t vocabulary = 0;
  std::int64_t blocks = 1;  ///< vocabulary blocks; 1: the logits are kept whole

  friend bool operator==(const LossAttributes&, const LossAttributes&) = default;
};

/// Everything about a layer that must be known before anything runs. Nothing else states these
/// numbers: memory plans, FLOPs, costs and the layer itself all read them here.
///
/// The layers of a segment form a chain: the y of one is the x of the next. A layer may also read
/// one earlier tensor of its segment, `skip` (residual connections), and tensors that come in at
/// further ports of the segment, `reads`.
struct LayerSpec {
  std::string
      kind;  ///< which class computes it: "linear", "layernorm", …, or one of the user's own
  std::string name;
  TensorSpec x;
  TensorSpec y;
  Until x_until = Until::Forward;      ///< who reads x last: F, I or W of this layer
  Until fixed_x_until = Until::Input;  ///< the same where none of its parameters is trained
  Until y_until = Until::Forward;      ///< who reads y last, of this layer
  Until dy_until = Until::Input;       ///< Input, or Weight if W reads dy
  bool dx_is_dy = false;               ///< I copies nothing: the gradient passes through
  bool cheap = false;                  ///< element by element: y is computed again rather than kept
  bool does_without_x = false;         ///< it also runs where nothing arrives as x
  int skip = -1;                       ///< y = x + the x of layer `skip` of this segment
  std::vector<ReadTensor> reads;       ///< besides x and `skip`
  std::vector<ParameterSpec> parameters;
  std::vector<TensorSpec> constants;  ///< tables that never change; one copy per stage and name
  std::vector<TensorSpec> caches;     ///< generating: what F adds to from call to call
  std::vector<TensorSpec> sums;       ///< lasting, f32: what W adds to besides the gradients
  /// For a layer that runs once per step: x of all microbatches of the step, in the order of their
  /// numbers, then what it makes of them before any F. Empty: it knows one microbatch at a time.
  std::vector<TensorSpec> collected;
  std::vector<KeptTensor> kept_by_forward;  ///< besides x and y
  std::vector<TensorSpec> kept_by_input;    ///< besides dy; read by W
  std::vector<MatmulSpec> forward;          ///< products of F
  std::vector<MatmulSpec> backward_input;
  std::vector<MatmulSpec> backward_weight;
  std::int64_t scratch = 0;  ///< bytes that its own kernels need besides those of the products
  Attributes attributes;

  template <class T>
  const T& as() const {
    return attributes.as<T>();
  }

  friend bool operator==(const LayerSpec&, const LayerSpec&) = default;
};

/// The grain of recompute, gathering and reducing, and of cutting a model into stages: the
/// embedding, a block, the head.
struct SegmentSpec {
  std::string name;
  std::vector<LayerSpec> layers;
  bool block = false;  ///< one of what parallel.partition and parallel.recompute count as layers
  std::string module = {};  ///< the part of the model that it belongs to; empty: there is one

  friend bool operator==(const SegmentSpec&, const SegmentSpec&) = default;
};

/// Whether W has a gradient to add to.
bool trains(const LayerSpec& layer);
bool trains(const SegmentSpec& segment);

/// Takes out of a layer that has parameters, none of them trained, what only W would read or do.
void leave_out_weight_pass(LayerSpec& layer);

std::int64_t parameter_count(const LayerSpec& layer);
std::int64_t parameter_count(const SegmentSpec& segment);

/// Floating-point operations of the products of all three passes.
std::int64_t flops(const LayerSpec& layer);
std::int64_t flops(const SegmentSpec& segment);

}  // namespace cleave
