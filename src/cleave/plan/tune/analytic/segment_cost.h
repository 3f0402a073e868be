#pragma once

#include <cstdint>

#include "cleave/plan/tune/analytic/workload.h"
#include "cleave/spec/layer_spec.h"

namespace cleave::plan {

/// What one segment costs one device of a tensor group, per microbatch. Seconds include the
/// collectives of tensor parallelism; bytes are those of mixed precision, 2 per element.
struct SegmentCost {
  double forward = 0;
  double input = 0;
  double weight = 0;
  double core_attention = 0;        ///< the part of `forward` that selective recompute repeats
  double tensor_communication = 0;  ///< the part of `forward` and `input` spent in collectives
  double parameters = 0;            ///< on this device
  double trained = 0;               ///< those of them that learn
  double kept = 0;                  ///< bytes from F to the backward, nothing recomputed
  double scores = 0;                ///< the part of `kept` that selective recompute drops
  double entry = 0;                 ///< all that full recompute keeps: x of the segment
  double work = 0;                  ///< bytes that live within one pass

  double backward() const { return input + weight; }
};

/// What decides the cost of a segment besides its spec.
struct SegmentContext {
  const Hardware& hardware;
  AttentionKernel attention = AttentionKernel::Flash;
  Kernels kernels = Kernels::Fused;
  std::int64_t tensor = 1;
  bool sequence_parallel = false;
  bool separate_projections = false;  ///< gate and up apart, the loss on gathered logits
  bool accumulates = true;            ///< more than one microbatch per step: gradients are added up
  bool wants_gradient = true;         ///< it has a backward pass
};

/// Walks the layers of `segment`. Between a linear layer and the next, features are split over the
/// tensor group; elsewhere every member has all of them, or with sequence parallelism its share of
/// the tokens:
///
///     norm -> [linear -> attention -> linear] -> residual -> norm -> [linear -> gelu -> linear] ->
///     …
///      all     column      heads       row        all
SegmentCost segment_cost(const SegmentSpec& segment, const SegmentContext& context);

}  // namespace cleave::plan
