#pragma once

#include <array>

#include "cleave/schedule/generators/generator.h"

namespace cleave::schedule {

/// Writes the list of one device with two chunks: each action takes the next microbatch of its
/// kind and chunk.
struct Lane {
  Draft& draft;
  DeviceId device;
  std::array<int, 2> forwards = {0, 0};
  std::array<int, 2> inputs = {0, 0};
  std::array<int, 2> weights = {0, 0};

  void f(int chunk) { draft.forward(device, chunk, MicrobatchId{forwards[chunk]++}); }
  void i(int chunk) { draft.input(device, chunk, MicrobatchId{inputs[chunk]++}); }
  void w(int chunk) { draft.weight(device, chunk, MicrobatchId{weights[chunk]++}); }
  void b(int chunk) {
    draft.backward(device, chunk, MicrobatchId{inputs[chunk]++});
    ++weights[chunk];
  }
};

}  // namespace cleave::schedule
