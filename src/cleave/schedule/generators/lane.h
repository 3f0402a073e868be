#pragma once

#include <array>

#include "cleave/schedule/generators/generator.h"

namespace cleave::schedule {

/// Writes the list of one device with two chunks: each action takes the next microbatch of its
/// kind and chunk.
struct Lane {
  Draft& draft;
  int device;
  std::array<int, 2> forwards = {0, 0};
  std::array<int, 2> inputs = {0, 0};
  std::array<int, 2> weights = {0, 0};

  void f(int chunk) { draft.forward(device, chunk, forwards[chunk]++); }
  void i(int chunk) { draft.input(device, chunk, inputs[chunk]++); }
  void w(int chunk) { draft.weight(device, chunk, weights[chunk]++); }
  void b(int chunk) {
    draft.backward(device, chunk, inputs[chunk]++);
    ++weights[chunk];
  }
};

}  // namespace cleave::schedule
