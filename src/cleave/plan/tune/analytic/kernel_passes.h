#pragma once

// What kernels of each kind read, write and keep: the constants of segment_cost.cpp.
namespace cleave::plan {

// How often a kernel goes over a tensor, reads and writes together: F, then backward.
struct Passes {
  double forward;
  double backward;
};
inline constexpr Passes kNorm = {2, 4};         // x y; x dy dx and the sums for the weight
inline constexpr Passes kResidual = {3, 3};     // x skip y; the branches' gradients are added
inline constexpr Passes kDropout = {3.5, 2.5};  // the same with a mask of a byte per element
inline constexpr Passes kGelu = {2, 3};         // x y; x dy dx
inline constexpr Passes kSwiglu = {5, 8};       // silu, then product: gate act, act up y; and back
inline constexpr Passes kRotary = {8, 8};       // two products, a swap of halves, a sum; of q and k
inline constexpr Passes kEmbedding = {2, 3};    // row y; dy and the row's sum
inline constexpr Passes kOther = {2, 3};        // x y; x dy dx
inline constexpr Passes kSoftmax = {2, 3};      // of plain attention: scores p; p dp ds
inline constexpr Passes kMasking = {2.5, 2.5};  // dropout of p, with its mask
inline constexpr double kTranspose = 8.0 / 3;   // q, k, v to heads first, and y back

/// In eager code residual branches, biases, splits and casts are kernels of their own.
inline constexpr double kUnfused = 1.45;

// dw is written by the product, then added to the sum; or cast to f32 to be reduced.
inline constexpr double kAccumulateBytes = 6;

// Bytes per score that plain attention keeps: p, the mask, p with dropout.
inline constexpr double kScoreBytes = 5;
inline constexpr double kMaskBytes = 1;

/// The logits in all their forms, in bytes per logit.
///   split over the tensor group: bf16, f32, gradient
///   gathered on every member: bf16 twice, f32, shifted copy, log-softmax; the same back
struct LogitBytes {
  double kept;
  double forward;
  double backward;
};
inline constexpr LogitBytes kSplitLogits = {8, 18, 10};
inline constexpr LogitBytes kGatheredLogits = {28, 28, 28};

/// The share of the second gathering of x for dw that does not hide behind the product for dx; and
/// of all collectives, where products are cut into pieces that each wait for their part alone.
inline constexpr double kExposed = 0.5;

}  // namespace cleave::plan
