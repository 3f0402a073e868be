#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "cleave/ops/compute.h"

namespace cleave::testing {

struct Target {
  std::int64_t bit;
  std::string name;
};

/// The instruction sets that kernels are compiled for and this machine has, best first.
std::vector<Target> supported_targets();

/// Makes the kernels use one instruction set; bit 0 gives the choice back to them.
void use_target(std::int64_t bit);

/// Calls `test(compute)` with every instruction set that this machine has, one and two threads.
template <class Test>
void on_every_target(const Test& test) {
  for (const Target& target : supported_targets()) {
    use_target(target.bit);
    for (int threads : {1, 2}) {
      SCOPED_TRACE(target.name + ", threads " + std::to_string(threads));
      ops::Compute compute(threads);
      test(compute);
    }
  }
  use_target(0);
}

}  // namespace cleave::testing
