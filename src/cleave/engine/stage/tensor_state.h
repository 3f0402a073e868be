#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "cleave/engine/stage/stage_parameters.h"
#include "cleave/tensor/view.h"

namespace cleave::engine {

/// A tensor of the model as checkpoints know it, or this device's slice of one, in its memory.
struct TensorState {
  std::string name;
  View value;   ///< in the model's dtype
  View master;  ///< f32
  View gradient;
  std::vector<SlotState> slots;
  int dim = 0;                 ///< the slice has indices [start, start + size(dim)) of this dim
  std::int64_t start = 0;      ///< 0 if it is the whole tensor
  std::int64_t whole = 0;      ///< size of the tensor along the dim
  std::int64_t first_row = 0;  ///< dim > 0: the first of the rows that it is a slice of

  std::int64_t elements() const { return master.elements(); }

  /// Calls visit(first, elements) on every run of neighbours in `part`, an f32 view of the slice:
  /// `first` is the place of the run's first element in the whole tensor.
  template <class Visit>
  void for_each_run(View part, Visit&& visit) const {
    float* values = part.as<float>();
    if (dim == 0) {
      const std::int64_t row = part.rank() > 1 ? part.stride(0) : 1;
      visit(start * row, std::span(values, static_cast<std::size_t>(part.elements())));
      return;
    }
    for (std::int64_t row = 0; row < part.size(0); ++row) {
      visit((first_row + row) * whole + start,
            std::span(values + row * part.stride(0), static_cast<std::size_t>(part.size(1))));
    }
  }
};

}  // namespace cleave::engine
