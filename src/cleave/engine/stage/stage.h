#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "cleave/engine/stage/stage_parameters.h"
#include "cleave/layers/layer.h"
#include "cleave/ops/compute.h"
#include "cleave/plan/memory/stage_layout.h"
#include "cleave/spec/graph.h"

namespace cleave::engine {

/// Where the regions of one microbatch in one segment begin, and what it exchanges with segments
/// other than its neighbours.
struct Frame {
  std::array<std::byte*, plan::kRegions> regions{};
  std::span<std::byte* const> ports;      ///< [2 read] what arrives, [2 read + 1] its gradient
  std::span<std::byte* const> copies;     ///< where y goes besides Region::Output
  std::span<std::byte* const> gradients;  ///< of y, besides Region::OutputGradient, to be added

  std::byte*& operator[](std::size_t region) { return regions[region]; }
  std::byte* operator[](std::size_t region) const { return regions[region]; }
};

/// What lies at `place`; nothing where it has none.
View view_at(const Frame& frame, const plan::Place& place, const TensorSpec& tensor);

/// The gradient of a tensor at `place`.
View gradient_at(const Frame& frame, const plan::Place& place, const TensorSpec& tensor);

/// One pass of one microbatch through a segment of a stage.
struct SegmentPass {
  int segment = 0;
  Frame frame{};
  Write gradient = Write::Accumulate;  ///< Overwrite: the first microbatch of a sum
  bool ends_sum = false;               ///< the last microbatch of a sum
  int sum = 0;                         ///< which of the gradient sums W adds into
  int replica = 0;                     ///< of those that the device stands for
  float loss_scale = 1;
  std::byte* collected = nullptr;  ///< what the step has collected, where the segment reads it
  int number = 0;                  ///< of the microbatch among all of the step
  bool begins_step = false;        ///< F: the first after it was collected
  std::int64_t microbatch = 0;     ///< number among all of the run; 0 while evaluating
  std::int64_t items = kAllItems;  ///< of optional inputs; see StageOptions::fewer

  static constexpr std::int64_t kAllItems = -1;
};

/// Whether results are searched for NaN and infinity, to find the layer where they begin.
enum class Search : std::uint8_t { Off, NonFinite };

/// What is loaded from the data into a segment, before its F: a tensor that one of its layers
/// reads.
struct StageInput {
  std::string name;  ///< of the graph's input
  int layer = 0;     ///< of the segment
  int read = kX;     ///< which of LayerSpec::reads

  static constexpr int kX = -1;
};

/// Where a port reads the y of another segment, and puts its gradient.
struct PortSource {
  int segment = 0;                   ///< of the same stage, where no edge brings it
  int edge = -1;                     ///< of the program
  std::int64_t gradient_offset = 0;  ///< among the gradients that go the same way
  bool wants_gradient = true;
};

/// How a segment of a stage is joined to the rest of the model.
struct SegmentPorts {
  plan::Borders borders;
  std::vector<StageInput> inputs = {};
  std::optional<PortSource> x = {};                   ///< nothing: from the data
  std::vector<std::optional<PortSource>> reads = {};  ///< [read of all layers]; as x
  std::vector<int> targets = {};                      ///< edges that y leaves over; -1: its stage
  std::vector<PortSource> gradients = {};             ///< of y, in the order of the graph's edges
};

/// The segments of a stage for microbatches with so many items of optional inputs. One without
/// layers is as ever.
struct FewerSegments {
  std::int64_t items = 0;
  std::vector<SegmentSpec> segments;
};

struct StageOptions {
  std::vector<SegmentPorts> ports;  ///< [segment]
  plan::StateOptions state;
  std::vector<plan::Keep> keep = {};  ///< [segment]; empty: everything
  /// Where microbatches have fewer items than there is room for, ascending. Their tensors lie at
  /// the places of those for all items, whose first rows they have. A microbatch with fewer than
  /// the first is computed as the first.
  std::vector<FewerSegments> fewer = {};
};

/// A piece of the model on one device: consecutive segments, bound to the device's memory.
class Stage {
 public:
  Stage(std::vector<SegmentSpec> segments, const StageOptions& options, const LayerFactory& make);

  const plan::StageLayout& layout(int segment) const { return layouts_[segment]; }
  const StageParameters& parameters() const { return parameters_; }
  plan::Keep keeps(int segment) const {
    return keep_.empty() ? plan::Keep::Everything : keep_[segment];
  }
  const std::vector<SegmentSpec>& segments() const { return segments_; }
  const SegmentPorts& ports(int segment) const { return ports_[segment]; }

  /// Whether it computes fewer rows where a microbatch has fewer items (SegmentPass::items).
  bool has_fewer() const { return made_.size() > 1; }

  /// A layer of a segment as it computes so many items.
  const LayerSpec& layer(int segment, int index, std::int64_t items) const;

  /// Scratch that the kernels need; compiles them.
  std::int64_t kernel_scratch_bytes(ops::Compute& compute) const;

  /// Bytes of the Work region: the most that any one instruction needs.
  std::int64_t work_bytes() const;

  /// Gives the stage its lasting memory; see StageParameters::bind.
  void bind(const LastingMemory& memory, int replica,
            std::span<const StageParameters* const> others);

  /// From now on the layers of a segment read their parameters at `whole`: what was gathered.
  void place_values(int segment, std::byte* whole);

  /// Called after every layer: what else the device has to look after meanwhile.
  void set_between_layers(std::function<void()> call) { between_layers_ = std::move(call); }

  void forward(ops::Compute& compute, const SegmentPass& pass, Search search = Search::Off);
  /// R: brings back what F did not keep.
  void recompute(ops::Compute& compute, const SegmentPass& pass);
  void backward_input(ops::Compute& compute, const SegmentPass& pass, Search search = Search::Off);
  void backward_weight(ops::Compute& compute, const SegmentPass& pass);
  /// I then W, layer by layer: nothing is kept between them.
  void backward(ops::Compute& compute, const SegmentPass& pass, Search search = Search::Off);

  /// What is to be loaded before F of a segment, and where.
  std::span<const StageInput> inputs(int segment) const { return ports_[segment].inputs; }
  View tensor_of(const StageInput& input, const SegmentPass& pass) const;
  /// The same before R, which finds nothing that F has loaded for its layers; null: nothing is.
  View tensor_again(const StageInput& input, const SegmentPass& pass) const;
  /// f32 [samples], valid right after F; empty unless the segment gives a result.
  View losses(const SegmentPass& pass) const;

 private:
  class Call;
  struct Entry {
    std::unique_ptr<Layer> layer;
    const plan::LayerPlaces* places = nullptr;
    const plan::ForwardPlaces* first = nullptr;  ///< null: as in `places`
    std::size_t parameter = 0;                   ///< its first one
    std::size_t sum = 0;                         ///< the first of its sums
  };
  /// The layers of all segments for microbatches with so many items.
  struct Made {
    std::int64_t items = SegmentPass::kAllItems;
    std::vector<std::vector<Entry>> segments;  ///< [segment]; empty: those for all items
  };

  Made make_layers(std::int64_t items, std::span<const SegmentSpec> segments,
                   const LayerFactory& make);
  const Made& made_for(std::int64_t items) const;
  std::span<const Entry> entries(const SegmentPass& pass) const;
  template <class Visit>
  void for_each_entry(Visit&& visit) const;
  void hand_out(ops::Compute& compute, const SegmentPass& pass) const;
  void add_gradients(ops::Compute& compute, const SegmentPass& pass) const;
  enum class Backward : std::uint8_t { Split, Fused };
  /// Messages are as long as for all items. What lies after the rows of a microbatch with fewer was
  /// written by others, and is nobody's to see: it becomes zeros.
  void clear_after_output(ops::Compute& compute, const SegmentPass& pass) const;
  void clear_after_gradients(ops::Compute& compute, const SegmentPass& pass, Backward how) const;

  std::vector<SegmentSpec> segments_;
  std::vector<SegmentPorts> ports_;         ///< [segment]
  std::vector<plan::Keep> keep_;            ///< [segment]; empty: everything
  std::vector<plan::StageLayout> layouts_;  ///< [segment]
  StageParameters parameters_;
  std::vector<Made> made_;  ///< for all items, then for fewer, ascending
  std::vector<View> room_;  ///< for the views of a layer's kept tensors, while it is called
  std::function<void()> between_layers_ = [] {};
};

}  // namespace cleave::engine
