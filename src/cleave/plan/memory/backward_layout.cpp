#include <algorithm>

#include "cleave/plan/memory/stage_chain.h"
#include "cleave/spec/layer_spec.h"

namespace cleave::plan {
namespace {

BackwardPlaces& places_of(LayerPlaces& layer, BackwardForm form) {
  return form == BackwardForm::Fused ? layer.fused : layer.split;
}

/// The gradients of the chain's tensors. A gradient that passes through a layer unchanged is one
/// memory under two names; `root` is the name it was written under.
struct Gradients {
  std::vector<int> root;
  std::vector<int> last_layer;   ///< the lowest layer whose I reads it
  std::vector<bool> for_weight;  ///< some W reads it

  explicit Gradients(const StageChain& chain)
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

}  // namespace

/// `when(layer)` orders the layers of a backward pass: the last layer comes first.
void lay_out_backward(const StageChain& chain, Borders borders, BackwardForm form,
                      StageLayout& layout) {
  const bool fused = form == BackwardForm::Fused;
  const int count = chain.size();
  const Gradients gradients(chain);
  const auto when = [&](int layer) { return count - 1 - layer; };
  RegionEnds ends(layout);
  WorkSpace work;
  std::vector<Place> tensors(count + 1);
  for (int k = count; k >= 0; --k) {
    if (gradients.root[k] != k) continue;
    const std::int64_t bytes = chain.tensor(k).gradient_bytes();
    if (k == count) {
      // Both ways of running backward read the same arriving message: place it once.
      if (!borders.y_leaves) continue;
      tensors[k] =
          fused ? Place{Region::OutputGradient, 0} : ends.add(Region::OutputGradient, bytes);
      if (gradients.for_weight[k]) layout.gradient_until = Until::Weight;
    } else if (k == 0 && (borders.dx_leaves || !borders.x_arrives)) {
      if (!borders.x_arrives) continue;
      tensors[k] = fused ? Place{Region::InputGradient, 0} : ends.add(Region::InputGradient, bytes);
    } else if (!fused && gradients.for_weight[k]) {
      tensors[k] = ends.add(Region::InputKept, bytes);
    } else {
      work.add(tensors[k], {when(k), when(std::max(gradients.last_layer[k], 0)), bytes});
    }
  }

  for (int k = 0; k < count; ++k) {
    BackwardPlaces& places = places_of(layout.layers[k], form);
    const auto& kept = chain.layers[k]->kept_by_input;
    places.kept_by_input.resize(kept.size());
    for (std::size_t i = 0; i < kept.size(); ++i) {
      // Without a W, what I leaves for it is gone when I is done.
      if (fused || !trains(*chain.layers[k])) {
        work.add(places.kept_by_input[i], {when(k), when(k), kept[i].bytes()});
      } else {
        places.kept_by_input[i] = ends.add(Region::InputKept, kept[i].bytes());
      }
    }
  }
  (fused ? layout.fused_work : layout.input_work) = work.pack();

  for (int k = 0; k < count; ++k) {
    BackwardPlaces& places = places_of(layout.layers[k], form);
    places.dy = tensors[gradients.root[k + 1]];
    places.dx = tensors[gradients.root[k]];
    if (chain.skip[k] < 0) continue;
    places_of(layout.layers[chain.skip[k]], form).add = tensors[gradients.root[k + 1]];
  }
}

}  // namespace cleave::plan
