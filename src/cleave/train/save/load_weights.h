#pragma once

#include "cleave/checkpoint/reader.h"
#include "cleave/engine/decode/decoder.h"
#include "cleave/train/save/adapters.h"

namespace cleave::train {

/// Where weights of a saved model go.
struct WeightTargets {
  std::span<const engine::Decoder::Weight> weights;
  View staging;  ///< f32 [n], to convert in
  ops::Compute* compute = nullptr;
};

/// Checks every weight against the manifest while reading it, then merges its adapter into it.
/// Throws UserError if one is damaged.
void load_weights(const checkpoint::CheckpointReader& checkpoint, const MergedWeights& adapters,
                  const WeightTargets& targets);

}  // namespace cleave::train
