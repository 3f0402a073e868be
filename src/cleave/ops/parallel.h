#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>

#include "cleave/ops/compute.h"

namespace cleave::ops {

namespace detail {
/// Calls `piece(context, p)` for p in [0, pieces), piece p on thread p of the calling thread's
/// team.
void run_pieces(int pieces, void (*piece)(void* context, int p), void* context);
}  // namespace detail

/// Calls `fn(piece, begin, end)` on at most compute.threads() pieces of [0, count), one per thread;
/// pieces are numbered from 0.
///
/// The pieces depend on count, grain and the number of threads only, and all but the last end on a
/// multiple of `grain`: the least amount of work worth a thread, and the grid on which sums are
/// blocked. With one piece no thread is involved. `fn` must not throw.
template <class Fn>
void parallel_pieces(const Compute& compute, std::int64_t count, std::int64_t grain, Fn&& fn) {
  if (count <= 0) return;
  const std::int64_t units = (count + grain - 1) / grain;
  const int pieces = static_cast<int>(std::min<std::int64_t>(units, compute.threads()));
  if (pieces == 1) {
    fn(0, std::int64_t{0}, count);
    return;
  }
  auto piece = [&](int p) {
    const std::int64_t begin = units * p / pieces * grain;
    const std::int64_t end = std::min(count, units * (p + 1) / pieces * grain);
    fn(p, begin, end);
  };
  detail::run_pieces(
      pieces, [](void* context, int p) { (*static_cast<decltype(piece)*>(context))(p); },
      std::addressof(piece));
}

/// The same for a `fn(begin, end)` that does not care which piece it works on.
template <class Fn>
void parallel_for(const Compute& compute, std::int64_t count, std::int64_t grain, Fn&& fn) {
  parallel_pieces(compute, count, grain,
                  [&](int, std::int64_t begin, std::int64_t end) { fn(begin, end); });
}

}  // namespace cleave::ops
