#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "cleave/layers/layer.h"
#include "cleave/ops/compute.h"
#include "cleave/plan/stage_layout.h"
#include "cleave/plan/state_layout.h"

namespace cleave::runtime {

/// A parameter with everything that belongs to it on this device.
struct ParameterState {
  const ParameterSpec* spec = nullptr;
  View value;
  View master;    ///< f32; the same memory as value in f32
  View gradient;  ///< f32
  View m;
  View v;
  bool borrowed = false;  ///< values and moments are those of the parameter it is tied to
};

/// Where the regions of one microbatch in one segment begin.
using Frame = std::array<std::byte*, plan::kRegions>;

/// One pass of one microbatch through a segment of a stage.
struct Pass {
  int segment = 0;
  Frame frame{};
  Write gradient = Write::Accumulate;  ///< Overwrite: the first microbatch of a sum
  bool ends_sum = false;               ///< the last microbatch of a sum
  int sum = 0;                         ///< which of the gradient sums W adds into
  float loss_scale = 1;
};

/// Whether results are searched for NaN and infinity, to find the layer where they begin.
enum class Search : std::uint8_t { Off, NonFinite };

/// A piece of the model on one device: consecutive segments, bound to the device's memory.
class Stage {
 public:
  struct Memory {
    std::byte* weights = nullptr;
    std::byte* gradients = nullptr;  ///< the sums one behind the other
    std::byte* optimizer = nullptr;
  };

  Stage(std::vector<SegmentSpec> segments, plan::Position position, const plan::StateOptions& state,
        const LayerFactory& make);

  const plan::StageLayout& layout(int segment) const { return layouts_[segment]; }
  const plan::StateLayout& state() const { return state_; }
  const std::vector<SegmentSpec>& segments() const { return segments_; }

  /// Scratch that the kernels need; compiles them.
  std::int64_t kernel_scratch_bytes(ops::Compute& compute) const;

  /// Bytes of the Work region: the most that any one instruction needs.
  std::int64_t work_bytes() const;

  /// Gives the stage its lasting memory. `others` are the device's parameters bound so far: where a
  /// tied weight finds what it borrows.
  void bind(const Memory& memory, std::span<const ParameterState> others);

  /// All gradients of a segment in sum `sum`, f32 [n]: the padding between parameters is in it.
  View gradients(int segment, int sum) const;

  /// Called behind every layer: what else the device has to look after meanwhile.
  void set_between_layers(std::function<void()> call) { between_layers_ = std::move(call); }

  std::span<ParameterState> parameters() { return parameters_; }
  std::span<const ParameterState> parameters() const { return parameters_; }

  void forward(ops::Compute& compute, const Pass& pass, Search search = Search::Off);
  void backward_input(ops::Compute& compute, const Pass& pass, Search search = Search::Off);
  void backward_weight(ops::Compute& compute, const Pass& pass);
  /// I then W, layer by layer: nothing is kept between them.
  void backward(ops::Compute& compute, const Pass& pass, Search search = Search::Off);

  /// i32 [tokens], to be filled before F; empty unless the segment begins the model.
  View tokens(const Pass& pass) const;
  /// i32 [tokens], to be filled before F; empty unless the segment ends the model.
  View targets(const Pass& pass) const;
  /// f32 [tokens], valid right after F; empty unless the segment ends the model.
  View losses(const Pass& pass) const;

 private:
  class Call;
  struct Entry {
    std::unique_ptr<Layer> layer;
    const plan::LayerPlaces* places = nullptr;
  };

  std::span<const Entry> entries(int segment) const;
  bool begins_model(int segment) const;
  bool ends_model(int segment) const;
  ParameterState bind_parameter(int segment, const plan::ParameterPlace& place,
                                const Memory& memory, std::span<const ParameterState> others) const;

  std::vector<SegmentSpec> segments_;
  plan::Position position_;
  DType dtype_;
  std::vector<plan::StageLayout> layouts_;  ///< [segment]
  plan::StateLayout state_;
  std::vector<Entry> entries_;            ///< of all layers
  std::vector<std::size_t> first_entry_;  ///< [segment], and one past the last
  std::vector<View> room_;  ///< for the views of a layer's kept tensors, while it is called
  std::vector<ParameterState> parameters_;
  std::byte* gradients_ = nullptr;
  std::function<void()> between_layers_ = [] {};
};

}  // namespace cleave::runtime
