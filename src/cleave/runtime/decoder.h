#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "cleave/layers/layer.h"
#include "cleave/ops/compute.h"
#include "cleave/plan/stage_layout.h"
#include "cleave/runtime/stage.h"
#include "cleave/spec/model_spec.h"
#include "cleave/tensor/arena.h"

namespace cleave::runtime {

/// A whole model that continues one sequence: every token is computed once, and the keys and values
/// of all earlier ones are kept. All memory is one arena, planned before it exists.
class Decoder {
 public:
  struct Options {
    DType dtype = DType::F32;
    std::int64_t length = 0;  ///< longest sequence; at most the model's context
    int threads = 1;
    std::optional<std::int64_t> budget = {};  ///< bytes
    LayerFactory make_layer = &cleave::make_layer;
  };

  /// A tensor as checkpoints know it.
  struct Weight {
    std::string name;
    View value;  ///< in the model's dtype
  };

  /// Throws DoesNotFit, with the numbers, if the plan exceeds the budget.
  Decoder(const ModelShape& shape, const Options& options);

  /// To be filled before the first append(); tied weights once.
  const std::vector<Weight>& weights() const { return weights_; }

  /// f32 [n], free to use between calls of append(): to convert weights in.
  View staging() const;

  /// Continues the sequence by `tokens`, at least one, and returns the logits of what follows.
  /// f32 [vocabulary], valid until the next call.
  std::span<const float> append(std::span<const std::int32_t> tokens);

  /// Tokens so far.
  std::int64_t position() const { return position_; }
  std::int64_t length() const { return length_; }
  /// Forgets the sequence.
  void restart() { position_ = 0; }

  ops::Compute& compute() { return compute_; }
  std::int64_t planned_bytes() const { return planned_; }
  const Arena& arena() const { return *arena_; }

 private:
  /// The layers for calls of a fixed number of tokens.
  struct Pass {
    std::int64_t tokens = 0;
    std::vector<SegmentSpec> segments;
    plan::StageLayout layout;
    std::vector<std::unique_ptr<Layer>> layers;
    Frame frame{};

    std::int64_t bytes() const;
    LayerCall call(std::size_t layer, std::span<View> kept) const;
  };

  Pass make_pass(const ModelShape& shape, const Options& options, std::int64_t tokens) const;
  void plan_lasting();
  void bind(Pass& pass);
  void run(Pass& pass, std::span<const std::int32_t> tokens);

  std::int64_t length_;
  std::int64_t vocabulary_;
  DType dtype_;
  ops::Compute compute_;
  Pass single_;  ///< one token, to the logits
  Pass block_;   ///< many tokens of a prompt at once, without the head
  std::map<std::string, std::int64_t> lasting_;  ///< offset by name: weights, constants, caches
  std::int64_t work_ = 0;                        ///< where frames, staging and logits begin
  std::int64_t work_bytes_ = 0;
  std::int64_t logits_ = 0;
  std::int64_t planned_ = 0;
  std::unique_ptr<Arena> arena_;
  std::vector<Weight> weights_;
  std::int64_t position_ = 0;
};

}  // namespace cleave::runtime
