#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "cleave/plan/memory/state_layout.h"
#include "cleave/tensor/memory.h"
#include "cleave/tensor/view.h"

namespace cleave::engine {

/// A tensor that the optimizer keeps beside a parameter.
struct SlotState {
  std::string_view name;
  View values;   ///< f32, where STEP has it
  View at_rest;  ///< where it is between steps: there too, or outside
};

/// What this device updates of a parameter: all of it, or its share of what the replicas have. All
/// views are [n]: elements `first` … of the parameter.
struct ParameterState {
  const ParameterSpec* spec = nullptr;
  std::int64_t first = 0;
  View value;   ///< of packed rows i32 [rows, words of a row], all of them
  View master;  ///< f32; the same memory as value in f32; empty if it is not trained in bf16
  View master_at_rest;           ///< as of slots
  View gradient;                 ///< f32; empty if it is not trained
  std::vector<SlotState> slots;  ///< as spec->slots names them
  bool borrowed = false;         ///< values and slots are those of the parameter it is tied to

  /// The slot called `name`, which the parameter must have.
  View slot(std::string_view name) const;
  std::int64_t elements() const { return value.elements(); }
};

/// Where the plan put the lasting memory of a stage.
struct LastingMemory {
  std::byte* weights = nullptr;
  std::byte* gradients = nullptr;  ///< null: its segments have theirs for a part of the step
  std::byte* optimizer = nullptr;
  std::vector<std::byte*> sums = {};    ///< [segment] what W adds to
  std::vector<std::byte*> shares = {};  ///< [segment] what is kept of the sum over replicas
  // [segment] where optimizer state that moves is in STEP and between steps; empty: it stays.
  std::vector<std::byte*> fetched = {};
  std::vector<std::byte*> stored = {};
  Memory* memory = &host_memory();  ///< that all of this is in
};

/// The parameters of a stage in its device's memory, segment by segment in their flat order.
class StageParameters {
 public:
  StageParameters(std::span<const SegmentSpec> segments, const plan::StateOptions& options);

  const plan::StateLayout& layout() const { return layout_; }

  /// `others`: the stages of the device bound so far, where a tied weight finds what it borrows.
  void bind(const LastingMemory& memory, int replica,
            std::span<const StageParameters* const> others);

  /// In the order of the layers.
  std::span<const ParameterState> all() const { return shares_; }
  std::span<const ParameterState> of_segment(int segment) const;

  /// Whole, for the layers: value is empty while it is not gathered, gradient if it is not trained.
  View value(std::size_t index) const { return values_[index]; }
  View gradient(std::size_t index) const { return gradients_[index]; }

  /// The parameter `index` among values of its segment that begin at `base`.
  View value_at(std::size_t index, std::byte* base) const;

  /// All gradients of a segment in sum `sum`, f32 [n]: the padding between parameters is in it.
  View sums(int segment, int sum) const;

  /// True if the plan takes whole gradients away after their REDUCE.
  bool keeps_shares_apart() const { return memory_.gradients == nullptr; }

  /// Keeps this replica's share of sum 0 of a run.
  void keep_share(int segment, const plan::ShareRun& run) const;

  /// The values of a segment where every replica has all of them, in bytes of the flat order.
  std::span<std::byte> whole_values(int segment) const;

  /// Puts this replica's share of a segment's values where it belongs among all of them.
  void copy_share(int segment, std::byte* whole) const;

  std::byte* constant(const TensorSpec& constant) const;

 private:
  /// Where the sums of a segment begin.
  std::byte* sums_of(int segment) const {
    return keeps_shares_apart() ? memory_.sums[segment]
                                : memory_.gradients + layout_.segments[segment].gradients;
  }
  /// Elements [begin, end) of the flat order that this replica updates, and where they begin among
  /// its shares.
  struct OwnElements {
    std::int64_t begin = 0;
    std::int64_t end = 0;
    std::int64_t at = 0;
  };
  void bind_parameter(int segment, const plan::ParameterPlace& place,
                      std::span<const StageParameters* const> others);
  /// Each sets what its name says in `state`, and what layers see of it in values_ or gradients_.
  void bind_gradient(int segment, const plan::ParameterPlace& place, const OwnElements& part,
                     ParameterState& state);
  void bind_values(int segment, const plan::ParameterPlace& place, const OwnElements& part,
                   ParameterState& state);
  void borrow_values(std::span<const StageParameters* const> others, ParameterState& state);
  OwnElements part_of(const plan::SegmentState& segment, const plan::ParameterPlace& place) const;
  /// Where offsets into the Optimizer buffer are counted from, for a segment: in STEP, at rest.
  std::pair<std::byte*, std::byte*> optimizer_bases(int segment) const;

  plan::StateLayout layout_;
  std::vector<std::size_t> first_;  ///< [segment] its first parameter, and one past the last
  std::vector<ParameterState> shares_;
  std::vector<View> values_;
  std::vector<View> gradients_;
  LastingMemory memory_;
  int replica_ = 0;
};

}  // namespace cleave::engine
