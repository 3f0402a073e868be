#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "cleave/spec/layer_spec.h"

namespace cleave::plan {

/// Parameters begin at multiples of this many elements: a cache line even in bf16.
inline constexpr std::int64_t kParameterGrain = 32;

/// Shares of a parameter are cut at multiples of this many elements from where a piece of it
/// begins: the blocks of the gradient norm.
inline constexpr std::int64_t kShareBlock = 4096;

/// Where a parameter lies in the flat order of its segment. Values, masters, gradients and slots
/// all follow this order; of parameters that are not trained, which come last, there are values
/// only.
struct ParameterPlace {
  const ParameterSpec* spec = nullptr;
  std::int64_t at = 0;    ///< its first element
  bool borrowed = false;  ///< value, master and slots are those of the parameter it is tied to
};

/// Parameters that replicas divide among themselves as one: elements of the flat order. A tied
/// weight is a run of its own, so that both its uses are cut at the same places.
struct ShareRun {
  std::vector<std::int64_t> borders;  ///< replica r has [borders[r], borders[r + 1])
  std::int64_t at = 0;                ///< where a share begins in memory that holds only shares
  bool borrowed = false;
  bool trained = true;  ///< false: its values are shared, and nothing else exists of it

  std::int64_t begin() const { return borders.front(); }
  std::int64_t end() const { return borders.back(); }
};

/// Where the lasting memory of one segment is: offsets in bytes into the stage's Weights, Gradients
/// and Optimizer buffers.
struct SegmentState {
  std::vector<ParameterPlace> parameters;  ///< in the order of the layers
  std::vector<ShareRun> runs;              ///< empty: replicas share nothing
  std::int64_t elements = 0;  ///< of what is trained in the flat order, padding included
  std::int64_t owned = 0;     ///< of these, with values of their own; what is borrowed comes after
  std::int64_t frozen = 0;    ///< elements that are not trained and not borrowed; after `elements`
  std::int64_t all = 0;       ///< the whole flat order
  std::int64_t share = 0;     ///< elements of the largest share of any replica of what is trained
  std::int64_t owned_share = 0;
  std::int64_t frozen_share = 0;
  std::int64_t values = 0;          ///< Weights: what layers compute with, in the model's dtype
  std::int64_t masters = 0;         ///< Weights: f32; not used if the model's dtype is f32;
                                    ///< Optimizer, where StateOptions say so
  std::int64_t gradients = 0;       ///< Gradients: the sums one after the other, if they last
  std::vector<std::int64_t> slots;  ///< Optimizer: [i] slot i of the parameters that have so many
  std::int64_t state = 0;           ///< Optimizer: where what this segment has of it begins
  std::int64_t state_end = 0;

  /// Where a place of the flat order is among the values that this stage owns.
  std::int64_t owned_at(std::int64_t at) const {
    return at < elements ? at : owned + at - elements;
  }
  std::int64_t gradient_bytes() const { return elements * size_of(DType::F32); }
  std::int64_t share_bytes() const { return share * size_of(DType::F32); }
};

/// A table that layers share, or sums of one layer, in the Weights buffer.
struct ConstantPlace {
  const TensorSpec* spec = nullptr;
  std::int64_t offset = 0;
};

/// Of the sums that a layer keeps for itself, once.
std::int64_t bytes_of_sums(const LayerSpec& layer);

struct StateOptions {
  DType dtype = DType::F32;
  /// Names of the parameters that live on the stage's device: a weight tied to one of them borrows
  /// its memory; tied to any other, it is a full copy that is updated in step. Both have a gradient
  /// of their own.
  std::span<const std::string> resident = {};
  std::span<const std::string> tied = {};  ///< names that some weight is tied to
  int sums = 1;                            ///< gradient sums of each segment; 0: there are none
  int sides = 1;  ///< sums that go on side by side: replicas that the device stands for
  int zero = 0;   ///< what replicas share: 1 masters and slots, 2 gradients too, 3 values too
  int replicas = 1;
  /// True: master weights lie among the optimizer's slots, since only STEP reads them; in f32 they
  /// are the values, and stay.
  bool masters_with_slots = false;
};

/// The lasting memory of a stage: per element 2 + 4 + 4 bytes in bf16, 4 + 4 in f32, and 4 for each
/// slot, of which ZeRO keeps a share; for what is not trained 2 or 4, or a packed row's.
struct StateLayout {
  StateOptions options;  ///< without its names
  std::vector<SegmentState> segments;
  std::vector<ConstantPlace> constants;  ///< one per name
  std::vector<ConstantPlace> sums;       ///< of all layers, in order
  std::int64_t weights = 0;
  std::int64_t gradients = 0;
  std::int64_t optimizer = 0;
  std::int64_t saved = 0;  ///< of what checkpoints hold: masters and slots

  bool shares_state() const { return options.zero >= 1; }
  bool shares_gradients() const { return options.zero >= 2; }
  bool shares_values() const { return options.zero >= 3; }
};
StateLayout layout_state(std::span<const SegmentSpec> segments, const StateOptions& options);

}  // namespace cleave::plan
