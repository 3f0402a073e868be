#pragma once

#include <cstdint>
#include <string_view>

#include "cleave/tensor/view.h"

namespace cleave::engine {

/// Where a step's microbatches come from. Every stage loads its own inputs: what a
/// microbatch holds depends on its number alone.
class MicrobatchSource {
 public:
  virtual ~MicrobatchSource() = default;

  /// Fills `tensor` with what the graph's input `input` is in microbatch `index` of this replica. A
  /// language model has "tokens" and "targets", i32 [tokens]: for each token the one that follows.
  virtual void load(int index, std::string_view input, View tensor) = 0;

  /// How many items, such as images, a model's optional inputs have in microbatch `index` of this
  /// replica: rows of that many are computed. The same on every device. kAll: as many as there is
  /// room for.
  virtual std::int64_t items(int /*index*/) const { return kAll; }
  static constexpr std::int64_t kAll = -1;
};

}  // namespace cleave::engine
