#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "cleave/plan/memory/interval_packing.h"
#include "cleave/plan/memory/stage_layout.h"

namespace cleave::plan {

/// The stage as one chain: tensor k is the x of layer k, tensor k + 1 its y.
struct StageChain {
  std::vector<const LayerSpec*> layers;
  std::vector<int> skip;               ///< of each layer: the tensor that it adds, or -1
  std::vector<std::vector<int>> port;  ///< [layer][read] its number if it arrives, or -1

  StageChain(std::span<const SegmentSpec> segments, std::span<const char> arrives) {
    int reads = 0;
    for (const SegmentSpec& segment : segments) {
      const int first = size();
      for (const LayerSpec& layer : segment.layers) {
        layers.push_back(&layer);
        skip.push_back(layer.skip < 0 ? -1 : first + layer.skip);
        port.emplace_back();
        for (std::size_t i = 0; i < layer.reads.size(); ++i, ++reads)
          port.back().push_back(!arrives.empty() && arrives[reads] != 0 ? reads : -1);
      }
    }
  }

  int size() const { return static_cast<int>(layers.size()); }
  const TensorSpec& tensor(int k) const { return k == 0 ? layers[0]->x : layers[k - 1]->y; }

  Until until(int k) const {
    Until last = k < size() ? layers[k]->x_until : Until::Forward;
    if (k > 0) last = std::max(last, layers[k - 1]->y_until);
    return last;
  }
};

/// Hands out places one after the other in the regions of a microbatch.
class RegionEnds {
 public:
  explicit RegionEnds(StageLayout& layout) : layout_(layout) {}

  Place add(Region region, std::int64_t bytes) {
    std::int64_t& end = layout_.bytes[static_cast<int>(region)];
    return {region, std::exchange(end, end + bytes)};
  }

  Place add_kept(Until until, std::int64_t bytes) {
    return add(until == Until::Weight ? Region::KeptForWeight : Region::KeptForInput, bytes);
  }

 private:
  StageLayout& layout_;
};

/// Collects tensors that live only inside one instruction, then packs them.
class WorkSpace {
 public:
  void add(Place& place, Interval interval) {
    place.region = Region::Work;
    places_.push_back(&place);
    intervals_.push_back(interval);
  }

  std::int64_t pack() {
    const Packing packing = pack_intervals(intervals_);
    for (std::size_t i = 0; i < places_.size(); ++i) places_[i]->offset = packing.offsets[i];
    return packing.bytes;
  }

 private:
  std::vector<Place*> places_;
  std::vector<Interval> intervals_;
};

/// How a backward pass runs: I and W apart, or as one B.
enum class BackwardForm : std::uint8_t { Split, Fused };

/// Places what I, W and B read and write; F is laid out already.
void lay_out_backward(const StageChain& chain, Borders borders, BackwardForm form,
                      StageLayout& layout);

}  // namespace cleave::plan
