#include "cleave/plan/memory/stage_layout.h"

#include <algorithm>

#include "cleave/base/check.h"
#include "cleave/plan/memory/stage_chain.h"

namespace cleave::plan {
namespace {

Place place_of_port(int read) {
  return {Region::Port, 2 * read};
}

/// Instructions of F during which tensor k is read or written.
Interval work_of(const StageChain& chain, int k) {
  int last = std::min(k, chain.size() - 1);
  for (int j = k; j < chain.size(); ++j) {
    if (chain.skip[j] == k) last = j;
  }
  return {std::max(k - 1, 0), last, chain.tensor(k).bytes()};
}

/// True if F drops tensor k, which R brings back.
bool drops(const StageChain& chain, int k, Keep keep) {
  return keep == Keep::Costly && k > 0 && k < chain.size() && chain.layers[k - 1]->cheap &&
         chain.until(k) != Until::Forward;
}

void lay_out_forward(const StageChain& chain, Borders borders, Keep keep, StageLayout& layout) {
  const int count = chain.size();
  RegionEnds ends(layout);
  WorkSpace work;
  std::vector<Place> tensors(count + 1);
  for (int k = 0; k <= count; ++k) {
    const std::int64_t bytes = chain.tensor(k).bytes();
    const Until until = chain.until(k);
    if (k == 0 && borders.x_arrives) {
      tensors[k] = ends.add(Region::Input, bytes);
      layout.input_until = until;
    } else if (k == count && borders.y_leaves) {
      CLEAVE_CHECK(until == Until::Forward, "the last layer of a stage must not keep its y");
      tensors[k] = ends.add(Region::Output, bytes);
    } else if (drops(chain, k, keep)) {
      tensors[k] = ends.add(Region::Recomputed, bytes);
    } else if (until != Until::Forward) {
      tensors[k] = ends.add_kept(until, bytes);
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
                                 : ends.add_kept(reads[i].until, reads[i].tensor.bytes()));
    for (const KeptTensor& kept : chain.layers[k]->kept_by_forward) {
      places.kept_by_forward.push_back(ends.add_kept(kept.until, kept.tensor.bytes()));
    }
  }
}

/// F alone: what layers would keep is gone when the layer is done, what they read when they have.
void lay_out_forward_alone(const StageChain& chain, Borders borders, StageLayout& layout) {
  const int count = chain.size();
  RegionEnds ends(layout);
  WorkSpace work;
  std::vector<Place> tensors(count + 1);
  for (int k = 0; k <= count; ++k) {
    CLEAVE_CHECK(chain.until(k) == Until::Forward,
                 "a piece without a backward pass keeps a tensor");
    if (k == 0 && borders.x_arrives) {
      tensors[k] = ends.add(Region::Input, chain.tensor(k).bytes());
    } else if (k == count && borders.y_leaves) {
      tensors[k] = ends.add(Region::Output, chain.tensor(k).bytes());
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
void lay_out_first(const StageChain& chain, Keep keep, StageLayout& layout) {
  const int count = chain.size();
  WorkSpace work;
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
std::vector<int> layers_again(const StageChain& chain, Keep keep) {
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

}  // namespace

StageLayout layout_stage(std::span<const SegmentSpec> segments, Borders borders, Keep keep,
                         std::span<const char> arrives) {
  const StageChain chain(segments, arrives);
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
  lay_out_backward(chain, borders, BackwardForm::Split, layout);
  lay_out_backward(chain, borders, BackwardForm::Fused, layout);
  return layout;
}

}  // namespace cleave::plan
