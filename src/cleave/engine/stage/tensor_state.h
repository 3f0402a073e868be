#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "cleave/engine/stage/stage_parameters.h"
#include "cleave/ops/packed_rows.h"
#include "cleave/spec/packed_rows.h"
#include "cleave/tensor/arena.h"
#include "cleave/tensor/bf16.h"
#include "cleave/tensor/memory.h"
#include "cleave/tensor/view.h"

namespace cleave::engine {

/// A tensor of the model as checkpoints know it, or this device's slice of one, in its memory.
struct TensorState {
  std::string name;
  View value;     ///< in the model's dtype; of packed rows i32 [rows, words of a row]
  View master;    ///< f32, at rest; empty if it is not trained in bf16, and of packed rows
  View gradient;  ///< empty if it is not trained, or trained elsewhere
  bool trainable = false;
  Held held = Held::Plain;
  std::int64_t row = 0;  ///< numbers of a row, where it is not held plainly
  std::vector<SlotState> slots;
  int dim = 0;                 ///< the slice has indices [start, start + size(dim)) of this dim
  std::int64_t start = 0;      ///< 0 if it is the whole tensor
  std::int64_t whole = 0;      ///< size of the tensor along the dim
  std::int64_t first_row = 0;  ///< dim > 0: the first of the rows that it is a slice of
  Memory* memory = &host_memory();  ///< that these views lie in
  const Arena* outside = nullptr;   ///< but for those that lie here

  std::int64_t elements() const {
    return held == Held::Packed ? value.size(0) * row : value.elements();
  }

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
  /// bf16 or packed.
  template <class Visit>
  void for_each_weight_run(Visit&& visit) const {
    if (held == Held::Packed) return for_each_packed_run(visit);
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
    if (held != Held::Plain) return set_rows(write);
    if (master) return set_runs(master, write);
    set_runs<BFloat16>(value, [&](std::int64_t first, std::span<BFloat16> run) {
      for_each_short_run(first, run, [&](std::int64_t at, auto some, std::span<float> copy) {
        write(at, copy);
        for (std::size_t i = 0; i < some.size(); ++i) some[i] = to_bf16(copy[i]);
      });
    });
  }

 private:
  /// Long enough that reading a file is not all system calls.
  static constexpr std::int64_t kShort = 16384;

  /// Calls visit(first, rows, numbers) on some whole rows at a time: `first` is the first of them
  /// in this slice, `numbers` has room for what is in them.
  template <class Visit>
  void for_each_rows(Visit&& visit) const {
    const std::int64_t most = std::max<std::int64_t>(1, kShort / row);
    std::vector<float> numbers(static_cast<std::size_t>(most * row));
    for (std::int64_t first = 0; first < value.size(0); first += most) {
      const View rows = value.slice(0, first, std::min(most, value.size(0) - first));
      visit(first, rows, std::span(numbers).first(static_cast<std::size_t>(rows.size(0) * row)));
    }
  }

  std::span<float> row_of(std::span<float> numbers, std::int64_t index) const {
    return numbers.subspan(static_cast<std::size_t>(index * row), static_cast<std::size_t>(row));
  }

  template <class Visit>
  void for_each_packed_run(Visit&& visit) const {
    for_each_rows([&](std::int64_t first, View rows, std::span<float> numbers) {
      read_on_host(memory_of(rows), rows, [&](ConstView host) {
        for (std::int64_t r = 0; r < rows.size(0); ++r)
          ops::unpack_row(host.slice(0, r, 1).bytes(), row_of(numbers, r));
      });
      visit((start + first) * row, numbers);
    });
  }

  /// Writes the numbers that packed rows have, in packed rows or in the model's format.
  template <class Write>
  void set_rows(Write&& write) const {
    std::vector<std::int32_t> packed(static_cast<std::size_t>(packed_row_words(row)));
    auto* const words = reinterpret_cast<std::byte*>(packed.data());
    for_each_rows([&](std::int64_t first, View rows, std::span<float> numbers) {
      write((start + first) * row, numbers);
      write_on_host(memory_of(rows), rows, [&](View host) {
        for (std::int64_t r = 0; r < rows.size(0); ++r) {
          std::byte* const to = host.slice(0, r, 1).bytes();
          if (held == Held::Packed) {
            ops::pack_row(row_of(numbers, r), to);
            continue;
          }
          ops::pack_row(row_of(numbers, r), words);
          ops::unpack_row(words, host.dtype(), to, static_cast<std::size_t>(row));
        }
      });
    });
  }

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
    std::array<float, kShort> copy;
    for (std::size_t done = 0; done < run.size(); done += copy.size()) {
      const std::size_t count = std::min(copy.size(), run.size() - done);
      visit(first + static_cast<std::int64_t>(done), run.subspan(done, count),
            std::span(copy).first(count));
    }
  }
};

}  // namespace cleave::engine
