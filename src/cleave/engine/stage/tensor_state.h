#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "cleave/engine/stage/stage_parameters.h"
#include "cleave/tensor/arena.h"
#include "cleave/tensor/bf16.h"
#include "cleave/tensor/memory.h"
#include "cleave/tensor/view.h"

namespace cleave::engine {

/// A tensor of the model as checkpoints know it, or this device's slice of one, in its memory.
struct TensorState {
  std::string name;
  View value;     ///< in the model's dtype
  View master;    ///< f32, at rest; empty if it is not trained in bf16
  View gradient;  ///< empty if it is not trained, or trained elsewhere
  bool trainable = false;
  std::vector<SlotState> slots;
  int dim = 0;                 ///< the slice has indices [start, start + size(dim)) of this dim
  std::int64_t start = 0;      ///< 0 if it is the whole tensor
  std::int64_t whole = 0;      ///< size of the tensor along the dim
  std::int64_t first_row = 0;  ///< dim > 0: the first of the rows that it is a slice of
  Memory* memory = &host_memory();  ///< that these views lie in
  const Arena* outside = nullptr;   ///< but for those that lie here

  std::int64_t elements() const { return value.elements(); }

  /// False: its value is all that there is of it, and never changes.
  bool trained() const { return trainable; }

  /// Calls visit(first, elements) on every run of neighbours in `part`, a view of the slice in f32
  /// or T, to be read: `first` is the place of the run's first element in the whole tensor.
  template <class T = float, class Visit>
  void for_each_run(View part, Visit&& visit) const {
    for_each_place<T>(part, [&](std::int64_t first, View run) {
      read_on_host(memory_of(run), run,
                   [&](ConstView host) { visit(first, elements_of<T>(host)); });
    });
  }

  /// Every run of `part` becomes what write(first, elements) puts there.
  template <class T = float, class Write>
  void set_runs(View part, Write&& write) const {
    for_each_place<T>(part, [&](std::int64_t first, View run) {
      write_on_host(memory_of(run), run, [&](View host) { write(first, elements_of<T>(host)); });
    });
  }

  /// As for_each_run on the weight, which is read as f32: runs may be short copies of what is in
  /// bf16.
  template <class Visit>
  void for_each_weight_run(Visit&& visit) const {
    if (master) return for_each_run(master, visit);
    for_each_run<BFloat16>(value, [&](std::int64_t first, std::span<BFloat16> run) {
      for_each_short_run(first, run, [&](std::int64_t at, auto some, std::span<float> copy) {
        for (std::size_t i = 0; i < some.size(); ++i) copy[i] = to_float(some[i]);
        visit(at, copy);
      });
    });
  }

  /// The weight becomes what write(first, elements) puts into f32 runs.
  template <class Write>
  void set_weight(Write&& write) const {
    if (master) return set_runs(master, write);
    set_runs<BFloat16>(value, [&](std::int64_t first, std::span<BFloat16> run) {
      for_each_short_run(first, run, [&](std::int64_t at, auto some, std::span<float> copy) {
        write(at, copy);
        for (std::size_t i = 0; i < some.size(); ++i) some[i] = to_bf16(copy[i]);
      });
    });
  }

 private:
  /// What the host cannot read is copied in runs of at most this many elements.
  static constexpr std::int64_t kCopied = 1 << 20;

  Memory& memory_of(View part) const {
    return outside != nullptr && outside->contains(part.bytes()) ? outside->memory() : *memory;
  }

  template <class T>
  static std::span<T> elements_of(ConstView run) {
    return {const_cast<T*>(run.as<T>()), static_cast<std::size_t>(run.elements())};
  }

  /// Calls visit(first, run) with the views of the runs.
  template <class T, class Visit>
  void for_each_place(View part, Visit&& visit) const {
    if (dim == 0) {
      const std::int64_t row = part.rank() > 1 ? part.stride(0) : 1;
      const View run(part.bytes(), dtype_of<T>(), {part.elements()});
      const std::int64_t most = memory_of(part).on_host(part.bytes()) ? run.elements() : kCopied;
      for (std::int64_t done = 0; done < run.elements(); done += most)
        visit(start * row + done, run.slice(0, done, std::min(most, run.elements() - done)));
      return;
    }
    for (std::int64_t row = 0; row < part.size(0); ++row) {
      visit((first_row + row) * whole + start, part.slice(0, row, 1).reshaped({part.size(1)}));
    }
  }

  template <class Visit>
  static void for_each_short_run(std::int64_t first, std::span<BFloat16> run, Visit&& visit) {
    std::array<float, 16384> copy;  // long enough that reading a file is not all system calls
    for (std::size_t done = 0; done < run.size(); done += copy.size()) {
      const std::size_t count = std::min(copy.size(), run.size() - done);
      visit(first + static_cast<std::int64_t>(done), run.subspan(done, count),
            std::span(copy).first(count));
    }
  }
};

}  // namespace cleave::engine
