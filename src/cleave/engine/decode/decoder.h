#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "cleave/comm/communicator.h"
#include "cleave/engine/stage/stage.h"
#include "cleave/layers/layer_kinds.h"
#include "cleave/model/model_shape.h"
#include "cleave/ops/compute.h"
#include "cleave/plan/memory/stage_layout.h"
#include "cleave/spec/graph.h"
#include "cleave/tensor/arena.h"

namespace cleave::engine {

/// A model that continues one sequence: every token is computed once, and the keys and values of
/// all earlier ones are kept. With a world, each device holds a stage of it, with the caches of its
/// own layers, and a token goes through them all:
///
///   device 0   embedding, blocks | y ->
///   device 1                           -> x | blocks, head | logits
///
/// A device's memory is one arena, planned before it exists.
class Decoder {
 public:
  struct Options {
    DType dtype = DType::F32;
    std::int64_t length = 0;  ///< longest sequence; at most the model's context
    int threads = 1;
    ops::Arithmetic arithmetic = ops::Arithmetic::Fastest;
    std::optional<std::int64_t> budget = {};  ///< bytes, of each device
    comm::Communicator* world = nullptr;      ///< device r holds stage r; must be given
    LayerFactory make_layer = LayerKinds();
  };

  /// A tensor as checkpoints know it.
  struct Weight {
    std::string name;
    View value;  ///< in the model's dtype
  };

  /// Throws DoesNotFit, with the numbers, if this device's plan exceeds the budget; UserError if
  /// there are more devices than pieces to cut the model into. Does not communicate.
  Decoder(const ModelShape& shape, const Options& options);

  /// The weights of this device, tied ones once. The caller fills them before the first append().
  const std::vector<Weight>& weights() const { return weights_; }

  /// f32 [n], free to use between calls of append(): to convert weights in.
  View staging() const;

  /// Continues the sequence by `tokens`, at least one, the same on all devices, and returns the
  /// logits of what follows: f32 [vocabulary], valid until the next call; empty on all devices but
  /// the last.
  std::span<const float> append(std::span<const std::int32_t> tokens);

  /// From now on rows of images stand at the tokens of a sequence whose place is not negative:
  /// token t has row places[t] of features[0] [n, hidden], in the model's dtype, and that of
  /// features[k] is added to it after language layer k - 1. Tokens after the last place have none.
  /// All are borrowed until the next call.
  void place(std::span<const std::int32_t> places, std::vector<ConstView> features) {
    places_ = places;
    features_ = std::move(features);
  }

  /// Tokens so far.
  std::int64_t position() const { return position_; }
  std::int64_t length() const { return length_; }
  /// Forgets the sequence.
  void restart() { position_ = 0; }

  ops::Compute& compute() { return compute_; }
  std::int64_t planned_bytes() const { return planned_; }
  const Arena& arena() const { return *arena_; }

 private:
  /// The segments of this device, [first, end) of the model's.
  struct Share {
    std::int64_t first = 0;
    std::int64_t end = 0;
  };

  /// The layers for calls of a fixed number of tokens.
  struct TokenPass {
    std::int64_t tokens = 0;
    bool receives = false;  ///< x, from the device before
    bool sends = false;     ///< y, to the device after
    std::vector<SegmentSpec> segments;
    plan::StageLayout layout;
    std::vector<std::unique_ptr<Layer>> layers;
    std::vector<std::int64_t> ends;  ///< [layer] the segment of the model that it ends, or -1
    Frame frame{};

    std::int64_t bytes() const;
    LayerCall call(std::size_t layer, std::span<View> kept) const;
  };

  static Share share_of(const ModelShape& shape, const Options& options);
  TokenPass make_pass(const ModelShape& shape, const Options& options, std::int64_t tokens) const;
  void plan_lasting();
  void check_budget(const Options& options) const;
  void bind(TokenPass& pass);
  void load_x(const TokenPass& pass, View x, std::span<const std::int32_t> tokens);
  void run(TokenPass& pass, std::span<const std::int32_t> tokens);
  void place_rows(std::int64_t segment, View y);

  comm::Communicator* world_;
  std::int64_t length_;
  std::int64_t vocabulary_;
  DType dtype_;
  ops::Compute compute_;
  Share share_;
  TokenPass single_;  ///< one token, to the logits
  TokenPass block_;   ///< many tokens of a prompt at once, without the head
  std::map<std::string, std::int64_t> lasting_;  ///< offset by name: weights, constants, caches
  std::int64_t work_ = 0;                        ///< where frames, staging and logits begin
  std::int64_t work_bytes_ = 0;
  std::int64_t logits_ = 0;
  std::int64_t planned_ = 0;
  std::unique_ptr<Arena> arena_;
  std::vector<Weight> weights_;
  std::int64_t position_ = 0;
  std::span<const std::int32_t> places_;
  std::vector<ConstView> features_;
};

}  // namespace cleave::engine
