#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "cleave/layers/layer.h"
#include "cleave/shard/layer_traits.h"

namespace cleave {

/// A kind of layer: what LayerSpec::kind calls it, what may be done with it, and what computes it.
struct LayerKind {
  std::string name;
  shard::LayerTraits traits;  ///< empty: along the tensor axis it is computed whole
  std::function<std::unique_ptr<Layer>(const LayerSpec&)> make;
  /// Whether accelerators can run it: if it computes with ops alone and reads no element itself.
  bool on_accelerators = false;
};

/// The row of a kind that the class `L` computes.
template <class L>
LayerKind layer_kind(std::string name, shard::LayerTraits traits = {}) {
  return {std::move(name), std::move(traits),
          [](const LayerSpec& spec) { return std::make_unique<L>(spec); }};
}

/// The kinds of layers that a model may be made of: cleave's own, and those that a user adds.
class LayerKinds {
 public:
  /// cleave's own.
  LayerKinds();

  /// Throws UserError if there is a kind of that name.
  void add(LayerKind kind);

  /// Null if there is no kind of that name.
  const LayerKind* find(std::string_view name) const;

  /// The class for `spec.kind`. Throws UserError for a kind that is not here.
  std::unique_ptr<Layer> operator()(const LayerSpec& spec) const;

  /// For shard::share_of; refers to this table.
  shard::TraitsOf traits() const;

 private:
  std::vector<LayerKind> kinds_;
};

}  // namespace cleave
