#pragma once

#include <cstdint>

#include "cleave/spec/rope_spec.h"

namespace cleave {

/// How the rotary positions of a model were stretched beyond the context that it was first trained
/// with; the numbers are those of Hugging Face's rope_scaling.
struct RopeScaling {
  enum class Kind : std::uint8_t {
    None,
    Linear,   ///< all positions divided by `factor`
    Dynamic,  ///< longer sequences than the context turn slower; within it nothing changes
    Llama3,   ///< slow pairs divided by `factor`, fast ones not, a ramp between them
    Yarn,     ///< the same with a ramp over the pairs, and what has been turned grows
  };
  Kind kind = Kind::None;
  double factor = 1;
  double original_context = 0;  ///< Llama3, Yarn
  double low_freq_factor = 1;   ///< Llama3: pairs with fewer turns in the original context are slow
  double high_freq_factor = 4;  ///< Llama3: pairs with more turns are fast
  double beta_fast = 32;        ///< Yarn: pairs with more turns in the original context are fast
  double beta_slow = 1;         ///< Yarn: pairs with fewer turns are slow
  double attention_factor = 1;  ///< Yarn: what has been turned is multiplied by this
  bool truncate = true;         ///< Yarn: the ramp begins and ends at whole pairs

  friend bool operator==(const RopeScaling&, const RopeScaling&) = default;
};

namespace model {

/// The tables' frequencies for heads of which `dims` elements turn.
Rope scaled_rope(double theta, std::int64_t dims, const RopeScaling& scaling);

}  // namespace model
}  // namespace cleave
