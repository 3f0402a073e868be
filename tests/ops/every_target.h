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

/// Those of them that multiply and add with one rounding and so share their bits: all but SSE4.
std::vector<Target> exact_targets();

/// Makes the kernels use one instruction set; bit 0 gives the choice back to them.
void use_target(std::int64_t bit);

template <class Test>
void on_targets(const std::vector<Target>& targets, ops::Arithmetic arithmetic, const Test& test) {
  for (const Target& target : targets) {
    use_target(target.bit);
    for (int threads : {1, 2}) {
      SCOPED_TRACE(target.name + ", threads " + std::to_string(threads));
      ops::Compute compute(threads, arithmetic);
      test(compute);
    }
  }
  use_target(0);
}

/// Calls `test(compute)` with every instruction set that this machine has, one and two threads.
template <class Test>
void on_every_target(const Test& test) {
  on_targets(supported_targets(), ops::Arithmetic::Fastest, test);
}

/// The same with those that promise equal bits, and with the arithmetic that keeps the promise.
template <class Test>
void on_exact_targets(const Test& test) {
  on_targets(exact_targets(), ops::Arithmetic::Exact, test);
}

}  // namespace cleave::testing
