#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "cleave/engine/stage/stage_parameters.h"
#include "cleave/tensor/bf16.h"
#include "cleave/tensor/view.h"

namespace cleave::engine {

/// A tensor of the model as checkpoints know it, or this device's slice of one, in its memory.
struct TensorState {
  std::string name;
  View value;     ///< in the model's dtype
  View master;    ///< f32; empty if it is not trained in bf16
  View gradient;  ///< empty if it is not trained
  std::vector<SlotState> slots;
  int dim = 0;                 ///< the slice has indices [start, start + size(dim)) of this dim
  std::int64_t start = 0;      ///< 0 if it is the whole tensor
  std::int64_t whole = 0;      ///< size of the tensor along the dim
  std::int64_t first_row = 0;  ///< dim > 0: the first of the rows that it is a slice of

  std::int64_t elements() const { return value.elements(); }

  /// False: its value is all that there is of it, and never changes.
  bool trained() const { return static_cast<bool>(gradient); }

  /// Calls visit(first, elements) on every run of neighbours in `part`, a view of the slice in f32
  /// or T: `first` is the place of the run's first element in the whole tensor.
  template <class T = float, class Visit>
  void for_each_run(View part, Visit&& visit) const {
    T* values = part.as<T>();
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

  /// The same on the weight, which is read as f32: runs may be short copies of what is in bf16.
  template <class Visit>
  void for_each_weight_run(Visit&& visit) const {
    if (master) return for_each_run(master, visit);
    for_each_short_run([&](std::int64_t first, std::span<BFloat16> run, std::span<float> copy) {
      for (std::size_t i = 0; i < run.size(); ++i) copy[i] = to_float(run[i]);
      visit(first, copy);
    });
  }

  /// The weight becomes what write(first, elements) puts into f32 runs.
  template <class Write>
  void set_weight(Write&& write) const {
    if (master) return for_each_run(master, write);
    for_each_short_run([&](std::int64_t first, std::span<BFloat16> run, std::span<float> copy) {
      write(first, copy);
      for (std::size_t i = 0; i < run.size(); ++i) run[i] = to_bf16(copy[i]);
    });
  }

 private:
  template <class Visit>
  void for_each_short_run(Visit&& visit) const {
    std::array<float, 1024> copy;
    for_each_run<BFloat16>(value, [&](std::int64_t first, std::span<BFloat16> run) {
      for (std::size_t done = 0; done < run.size(); done += copy.size()) {
        const std::size_t count = std::min(copy.size(), run.size() - done);
        visit(first + static_cast<std::int64_t>(done), run.subspan(done, count),
              std::span(copy).first(count));
      }
    });
  }
};

}  // namespace cleave::engine
