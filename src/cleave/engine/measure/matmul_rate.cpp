#include "cleave/engine/measure/matmul_rate.h"

#include <algorithm>
#include <array>
#include <chrono>

#include "cleave/base/units.h"
#include "cleave/ops/matmul.h"
#include "cleave/tensor/arena.h"

namespace cleave::engine {

namespace {

/// Edges of the products that are tried, each only where it is foreseen to end in time.
constexpr std::array<std::int64_t, 4> kEdges = {96, 192, 384, 768};
constexpr double kProductSeconds = 0.25;  ///< one product may take
constexpr double kEdgeSeconds = 0.4;      ///< after which no product of an edge is repeated
constexpr int kProductRounds = 4;

double best_rate(ops::Compute& compute, const View& a, const View& b, const View& out) {
  const double edge = static_cast<double>(out.shape()[0]);
  double best = 0;
  double spent = 0;
  for (int round = 0; round < kProductRounds && spent < kEdgeSeconds; ++round) {
    const auto start = std::chrono::steady_clock::now();
    ops::matmul(compute, a, b, out);
    const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
    spent += seconds.count();
    best = std::max(best, 2 * edge * edge * edge / seconds.count());
  }
  return best;
}

}  // namespace

double matmul_rate(DType dtype, int threads) {
  ops::Compute compute(threads);
  const std::int64_t bytes = kEdges.back() * kEdges.back() * size_of(DType::F32);
  std::int64_t scratch = 0;
  for (const std::int64_t edge : kEdges) {
    const View probe(nullptr, dtype, {edge, edge});
    scratch =
        std::max(scratch, ops::matmul_scratch_bytes(compute, ops::describe(probe, probe, probe)));
  }
  Arena arena(3 * bytes + aligned(scratch));
  compute.set_scratch({arena.at(3 * bytes), static_cast<std::size_t>(scratch)});

  double rate = 0;
  for (const std::int64_t edge : kEdges) {
    const double flops = 2.0 * static_cast<double>(edge * edge * edge);
    if (rate > 0 && flops / rate > kProductSeconds) break;
    const auto square = [&](int index) {
      return View(arena.at(index * bytes), dtype, {edge, edge});
    };
    rate = best_rate(compute, square(0), square(1), square(2));
  }
  return rate;
}

}  // namespace cleave::engine
