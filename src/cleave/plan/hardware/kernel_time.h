#pragma once

#include <cstdint>

#include "cleave/plan/hardware/hardware.h"

namespace cleave::plan {

/// out [batch, m, n] = a [batch, m, k] · b [batch, k, n], in bf16.
struct Product {
  std::int64_t m = 0;
  std::int64_t n = 0;
  std::int64_t k = 0;
  std::int64_t batch = 1;
};

/// Seconds of one product: tiles are dealt to the processors wave by wave, each with the overhead
/// of filling and draining its loop over k, and the operands have to come from memory.
double matmul_seconds(const Hardware& hardware, const Product& product);

/// Seconds of one kernel that reads and writes `bytes` in all and computes next to nothing.
double stream_seconds(const Hardware& hardware, double bytes);

/// Seconds of fused attention that does `flops` operations.
enum class FlashPass : std::uint8_t { Forward, Backward };
double flash_seconds(const Hardware& hardware, double flops, FlashPass pass, Kernels kernels);

/// Members of a collective, as they are spread over nodes.
struct CollectiveGroup {
  std::int64_t members = 1;
  std::int64_t per_node = 1;  ///< members in one node
};

/// Seconds until everyone has all of `bytes`, or the sum of its share of them: the two cost the
/// same on a ring. Members of one node share the node's adapters, one each.
double gather_seconds(const Hardware& hardware, double bytes, const CollectiveGroup& group);

/// A reduce-scatter and an all-gather.
double all_reduce_seconds(const Hardware& hardware, double bytes, const CollectiveGroup& group);

/// Seconds of one message between two devices.
enum class Distance : std::uint8_t { SameNode, OtherNode };
double message_seconds(const Hardware& hardware, double bytes, Distance distance);

}  // namespace cleave::plan
