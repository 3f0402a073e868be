#include "cleave/engine/measure/matmul_rate.h"

#include <algorithm>
#include <chrono>

#include <sched.h>

#include "cleave/base/units.h"
#include "cleave/ops/matmul.h"
#include "cleave/tensor/arena.h"

namespace cleave::engine {

double matmul_rate(DType dtype, int threads) {
  constexpr std::int64_t kSize = 768;
  ops::Compute compute(threads);
  const Shape square{kSize, kSize};
  const std::int64_t bytes = kSize * kSize * size_of(DType::F32);
  const View probe(nullptr, dtype, square);
  const std::int64_t scratch =
      ops::matmul_scratch_bytes(compute, ops::describe(probe, probe, probe));
  Arena arena(3 * bytes + aligned(scratch));
  const auto matrix = [&](int index) { return View(arena.at(index * bytes), dtype, square); };
  compute.set_scratch({arena.at(3 * bytes), static_cast<std::size_t>(scratch)});

  double best = 0;
  for (int round = 0; round < 4; ++round) {
    const auto start = std::chrono::steady_clock::now();
    ops::matmul(compute, matrix(0), matrix(1), matrix(2));
    const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
    best = std::max(best, 2.0 * kSize * kSize * kSize / seconds.count());
  }
  return best;
}

double devices_at_once(int devices, int threads) {
  cpu_set_t allowed;
  CPU_ZERO(&allowed);
  sched_getaffinity(0, sizeof(allowed), &allowed);
  const double cores = std::max(1, CPU_COUNT(&allowed));
  return std::clamp(cores / threads, 1.0, static_cast<double>(devices));
}

}  // namespace cleave::engine
