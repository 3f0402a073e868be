#pragma once

#include <cstdint>

#include "cleave/comm/transport.h"
#include "cleave/spec/layer_spec.h"

namespace cleave::parallel {

/// What one device sends over the tensor axis.
struct TensorTraffic {
  comm::Sent forward;  ///< by every F, and so on
  comm::Sent input;
  comm::Sent weight;
  comm::Sent sum;  ///< by the W that ends a sum of microbatches, besides
};

TensorTraffic tensor_traffic(const LayerSpec& layer);

/// How many collectives one pass through a layer posts at most.
std::size_t most_collectives(const LayerSpec& layer);

/// What the largest of them passes through in the host's memory, where no message reaches that of
/// the devices.
std::int64_t largest_exchange(const LayerSpec& layer);

/// Bytes that member `rank` sends in a sum of `bytes` over `members`, on all of them: what the
/// others add up, then its own part of the sum.
std::int64_t all_reduce_bytes(std::int64_t bytes, int members, int rank);

}  // namespace cleave::parallel
