#include "cleave/plan/memory/stage_layout.h"

#include <algorithm>
#include <utility>

#include "cleave/base/check.h"
#include "cleave/plan/memory/interval_packing.h"

namespace cleave::plan {
namespace {

/// The stage as one chain: tensor k is the x of layer k, tensor k + 1 its y.
struct Chain {
  std::vector<const LayerSpec*> layers;
  std::vector<int> skip;               ///< of each layer: the tensor that it adds, or -1
  std::vector<std::vector<int>> port;  ///< [layer][read] its number if it arrives, or -1

  Chain(std::span<const SegmentSpec> segments, std::span<const char> arrives) {
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
class Regions {
 public:
  explicit Regions(StageLayout& layout) : layout_(layout) {}

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
class Work {
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
enum class Backward : std::uint8_t { Split, Fused };

BackwardPlaces& places_of(LayerPlaces& layer, Backward mode) {
  return mode == Backward::Fused ? layer.fused : layer.split;
}

Place place_of_port(int read) {
  return {Region::Port, 2 * read};
}

/// Instructions of F during which tensor k is read or written.
Interval work_of(const Chain& chain, int k) {
  int last = std::min(k, chain.size() - 1);
  for (int j = k; j < chain.size(); ++j) {
    if (chain.skip[j] == k) last = j;
  }
  return {std::max(k - 1, 0), last, chain.tensor(k).bytes()};
}

/// True if F drops tensor k, which R brings back.
bool drops(const Chain& chain, int k, Keep keep) {
  return keep == Keep::Costly && k > 0 && k < chain.size() && chain.layers[k - 1]->cheap &&
         chain.until(k) != Until::Forward;
}

void lay_out_forward(const Chain& chain, Borders borders, Keep keep, StageLayout& layout) {
  const int count = chain.size();
  Regions regions(layout);
  Work work;
  std::vector<Place> tensors(count + 1);
  for (int k = 0; k <= count; ++k) {
    const std::int64_t bytes = chain.tensor(k).bytes();
    const Until until = chain.until(k);
    if (k == 0 && borders.x_arrives) {
      tensors[k] = regions.add(Region::Input, bytes);
      layout.input_until = until;
    } else if (k == count && borders.y_leaves) {
      CLEAVE_CHECK(until == Until::Forward, "the last layer of a stage must not keep its y");
      tensors[k] = regions.add(Region::Output, bytes);
    } else if (drops(chain, k, keep)) {
      tensors[k] = regions.add(Region::Recomputed, bytes);
    } else if (until != Until::Forward) {
      tensors[k] = regions.add_kept(until, bytes);
    } else {
      work.add(tensors[k], work_of(chain, k));
    }
  }
  layout.forward_work = work.pack();

  for (int k = 0; k < count; ++k) {
    LayerPlaces& places = layout.layers[k];
    places.x = tensors[k];
    places.y = tensors[k + 1];
    if (chain.skip[k] >= 0) places.skip = tensors[chain.skip[k]];
    const auto& reads = chain.layers[k]->reads;
    for (std::size_t i = 0; i < reads.size(); ++i)
      places.reads.push_back(chain.port[k][i] >= 0
                                 ? place_of_port(chain.port[k][i])
                                 : regions.add_kept(reads[i].until, reads[i].tensor.bytes()));
    for (const KeptTensor& kept : chain.layers[k]->kept_by_forward) {
      places.kept_by_forward.push_back(regions.add_kept(kept.until, kept.tensor.bytes()));
    }
  }
}

/// F alone: what layers would keep is gone when the layer is done, what they read when they have.
void lay_out_forward_alone(const Chain& chain, Borders borders, StageLayout& layout) {
  const int count = chain.size();
  Regions regions(layout);
  Work work;
  std::vector<Place> tensors(count + 1);
  for (int k = 0; k <= count; ++k) {
    CLEAVE_CHECK(chain.until(k) == Until::Forward,
                 "a piece without a backward pass keeps a tensor");
    if (k == 0 && borders.x_arrives) {
      tensors[k] = regions.add(Region::Input, chain.tensor(k).bytes());
    } else if (k == count && borders.y_leaves) {
      tensors[k] = regions.add(Region::Output, chain.tensor(k).bytes());
    } else {
      work.add(tensors[k], work_of(chain, k));
    }
  }
  for (int k = 0; k < count; ++k) {
    const LayerSpec& layer = *chain.layers[k];
    LayerPlaces& places = layout.layers[k];
    places.reads.resize(layer.reads.size());
    for (std::size_t i = 0; i < layer.reads.size(); ++i) {
      if (chain.port[k][i] >= 0)
        places.reads[i] = place_of_port(chain.port[k][i]);
      else
        work.add(places.reads[i], {0, k, layer.reads[i].tensor.bytes()});
    }
    places.kept_by_forward.resize(layer.kept_by_forward.size());
    for (std::size_t i = 0; i < layer.kept_by_forward.size(); ++i)
      work.add(places.kept_by_forward[i], {k, k, layer.kept_by_forward[i].tensor.bytes()});
  }
  layout.forward_work = work.pack();
  for (int k = 0; k < count; ++k) {
    layout.layers[k].x = tensors[k];
    layout.layers[k].y = tensors[k + 1];
    if (chain.skip[k] >= 0) layout.layers[k].skip = tensors[chain.skip[k]];
  }
}

/// Where F has everything, if R brings back what F does not keep.
void lay_out_first(const Chain& chain, Keep keep, StageLayout& layout) {
  const int count = chain.size();
  Work work;
  std::vector<Place> tensors(count + 1);
  layout.first.resize(count);
  for (int k = 0; k <= count; ++k) {
    tensors[k] = k < count ? layout.layers[k].x : layout.layers[k - 1].y;
    const bool kept = keep == Keep::Costly && !drops(chain, k, keep);
    const bool outside = tensors[k].region == Region::Input || tensors[k].region == Region::Output;
    if (!outside && (!kept || tensors[k].region == Region::Work))
      work.add(tensors[k], work_of(chain, k));
  }
  for (int k = 0; k < count; ++k) {
    ForwardPlaces& places = layout.first[k];
    places.reads = layout.layers[k].reads;
    places.kept_by_forward = layout.layers[k].kept_by_forward;
    if (keep == Keep::Costly) continue;
    const auto& reads = chain.layers[k]->reads;
    for (std::size_t i = 0; i < reads.size(); ++i)
      if (chain.port[k][i] < 0) work.add(places.reads[i], {0, k, reads[i].tensor.bytes()});
    const auto& kept = chain.layers[k]->kept_by_forward;
    for (std::size_t i = 0; i < kept.size(); ++i)
      work.add(places.kept_by_forward[i], {k, k, kept[i].tensor.bytes()});
  }
  layout.forward_work = std::max(layout.forward_work, work.pack());
  for (int k = 0; k < count; ++k) {
    layout.first[k].x = tensors[k];
    layout.first[k].y = tensors[k + 1];
    if (chain.skip[k] >= 0) layout.first[k].skip = tensors[chain.skip[k]];
  }
}

/// The layers that R must run so that I and W find what they read.
std::vector<int> layers_again(const Chain& chain, Keep keep) {
  std::vector<int> again;
  std::vector<bool> needed(chain.size() + 1, false);  // tensors that later layers of R read
  for (int k = chain.size() - 1; k >= 0; --k) {
    const LayerSpec& layer = *chain.layers[k];
    const bool reads_results =
        chain.until(k + 1) != Until::Forward || !layer.kept_by_forward.empty() || needed[k + 1];
    const bool runs = keep == Keep::Inputs ? reads_results : drops(chain, k + 1, keep);
    if (!runs) continue;
    again.insert(again.begin(), k);
    needed[k] = true;
    if (chain.skip[k] >= 0) needed[chain.skip[k]] = true;
  }
  return again;
}

/// The gradients of the chain's tensors. A gradient that passes through a layer unchanged is one
/// memory under two names; `root` is the name it was written under.
struct Gradients {
  std::vector<int> root;
  std::vector<int> last_layer;   ///< the lowest layer whose I reads it
  std::vector<bool> for_weight;  ///< some W reads it

  explicit Gradients(const Chain& chain)
      : root(chain.size() + 1), last_layer(chain.size() + 1), for_weight(chain.size() + 1) {
    const int count = chain.size();
    root[count] = count;
    for (int k = count - 1; k >= 0; --k) root[k] = chain.layers[k]->dx_is_dy ? root[k + 1] : k;
    for (int k = 0; k <= count; ++k) last_layer[k] = k - 1;
    for (int k = count - 1; k >= 0; --k) {
      const int dy = root[k + 1];
      last_layer[dy] = std::min(last_layer[dy], k);
      if (chain.layers[k]->dy_until == Until::Weight) for_weight[dy] = true;
      if (chain.skip[k] >= 0) last_layer[dy] = std::min(last_layer[dy], chain.skip[k]);
    }
  }
};

/// `when(layer)` orders the layers of a backward pass: the last layer comes first.
void lay_out_backward(const Chain& chain, Borders borders, Backward mode, StageLayout& layout) {
  const bool fused = mode == Backward::Fused;
  const int count = chain.size();
  const Gradients gradients(chain);
  const auto when = [&](int layer) { return count - 1 - layer; };
  Regions regions(layout);
  Work work;
  std::vector<Place> tensors(count + 1);
  for (int k = count; k >= 0; --k) {
    if (gradients.root[k] != k) continue;
    const std::int64_t bytes = chain.tensor(k).gradient_bytes();
    if (k == count) {
      // Both ways of running backward read the same arriving message: place it once.
      if (!borders.y_leaves) continue;
      tensors[k] =
          fused ? Place{Region::OutputGradient, 0} : regions.add(Region::OutputGradient, bytes);
      if (gradients.for_weight[k]) layout.gradient_until = Until::Weight;
    } else if (k == 0 && (borders.dx_leaves || !borders.x_arrives)) {
      if (!borders.x_arrives) continue;
      tensors[k] =
          fused ? Place{Region::InputGradient, 0} : regions.add(Region::InputGradient, bytes);
    } else if (!fused && gradients.for_weight[k]) {
      tensors[k] = regions.add(Region::InputKept, bytes);
    } else {
      work.add(tensors[k], {when(k), when(std::max(gradients.last_layer[k], 0)), bytes});
    }
  }

  for (int k = 0; k < count; ++k) {
    BackwardPlaces& places = places_of(layout.layers[k], mode);
    const auto& kept = chain.layers[k]->kept_by_input;
    places.kept_by_input.resize(kept.size());
    for (std::size_t i = 0; i < kept.size(); ++i) {
      // Without a W, what I leaves for it is gone when I is done.
      if (fused || !trains(*chain.layers[k])) {
        work.add(places.kept_by_input[i], {when(k), when(k), kept[i].bytes()});
      } else {
        places.kept_by_input[i] = regions.add(Region::InputKept, kept[i].bytes());
      }
    }
  }
  (fused ? layout.fused_work : layout.input_work) = work.pack();

  for (int k = 0; k < count; ++k) {
    BackwardPlaces& places = places_of(layout.layers[k], mode);
    places.dy = tensors[gradients.root[k + 1]];
    places.dx = tensors[gradients.root[k]];
    if (chain.skip[k] < 0) continue;
    places_of(layout.layers[chain.skip[k]], mode).add = tensors[gradients.root[k + 1]];
  }
}

}  // namespace

StageLayout layout_stage(std::span<const SegmentSpec> segments, Borders borders, Keep keep,
                         std::span<const char> arrives) {
  const Chain chain(segments, arrives);
  StageLayout layout;
  layout.layers.resize(chain.size());
  CLEAVE_CHECK(keep == Keep::Everything || (borders.x_arrives && borders.y_leaves),
               "what begins or ends a model is not recomputed");
  CLEAVE_CHECK(keep == Keep::Everything || borders.backward,
               "what has no backward pass is not recomputed");
  if (!borders.backward) {
    lay_out_forward_alone(chain, borders, layout);
    return layout;
  }
  lay_out_forward(chain, borders, keep, layout);
  if (keep != Keep::Everything) {
    lay_out_first(chain, keep, layout);
    layout.again = layers_again(chain, keep);
  }
  lay_out_backward(chain, borders, Backward::Split, layout);
  lay_out_backward(chain, borders, Backward::Fused, layout);
  return layout;
}

}  // namespace cleave::plan
