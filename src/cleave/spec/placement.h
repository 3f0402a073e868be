#pragma once

#include <cstdint>

namespace cleave {

/// Where a model that joins modules has the first of them, its encoders, in a pipeline.
enum class Placement : std::uint8_t {
  Even,    ///< wherever stages of equal cost put them
  First,   ///< all of them on the first device, with the beginning of the language model
  Own,     ///< on devices of their own, before those of the language model
  Shared,  ///< a stage of them on every device, beside one of the language model
  Auto,    ///< the one of these whose most loaded device has least to do
};

}  // namespace cleave
