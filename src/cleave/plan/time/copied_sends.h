#pragma once

#include <cstdint>

namespace cleave::plan {

/// Where messages leave before their credit, those of up to so many bytes are copied when they are
/// sent over a link with at least this latency, in seconds: no WAIT for their SEND takes time.
/// Whoever predicts what a transport does checks that it does this.
inline constexpr std::int64_t kCopiedBytes = std::int64_t{256} << 10;
inline constexpr double kCopiedFromLatency = 0.5e-3;

}  // namespace cleave::plan
