#pragma once

#include "cleave/tensor/view.h"

namespace cleave::engine {

/// Where a step's microbatches come from. Both ends of the pipeline load for themselves: what a
/// microbatch holds depends on its number alone.
class MicrobatchSource {
 public:
  virtual ~MicrobatchSource() = default;

  /// tokens i32 [tokens] of microbatch `index` of this replica
  virtual void load_tokens(int index, View tokens) = 0;
  /// targets i32 [tokens]: for each token the one that follows it
  virtual void load_targets(int index, View targets) = 0;
};

}  // namespace cleave::engine
