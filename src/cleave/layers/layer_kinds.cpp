#include "cleave/layers/layer_kinds.h"

#include <algorithm>
#include <iterator>

#include "cleave/layers/activation.h"
#include "cleave/layers/add_layer_kind.h"
#include "cleave/layers/attention.h"
#include "cleave/layers/class_loss.h"
#include "cleave/layers/coded_edge.h"
#include "cleave/layers/convolution.h"
#include "cleave/layers/embedding.h"
#include "cleave/layers/feature_maps.h"
#include "cleave/layers/image_join.h"
#include "cleave/layers/linear.h"
#include "cleave/layers/lora.h"
#include "cleave/layers/loss.h"
#include "cleave/layers/norm.h"
#include "cleave/layers/pair_loss.h"
#include "cleave/layers/pooling.h"
#include "cleave/layers/port_layers.h"
#include "cleave/layers/qk_norm.h"
#include "cleave/layers/residual.h"
#include "cleave/layers/sequence_rows.h"
#include "cleave/shard/traits.h"

namespace cleave {
namespace {

/// What joins images to a text, and what keeps the place of pixels.
std::vector<LayerKind> joining_kinds() {
  return {layer_kind<Positions>("positions"),
          layer_kind<WithoutFirst>("without_first"),
          layer_kind<PixelShuffle>("pixel_shuffle"),
          layer_kind<ImageJoin>("image_join"),
          layer_kind<AddRows>("add_rows"),
          layer_kind<KeptRows>("kept_rows"),
          layer_kind<Pad>("pad"),
          layer_kind<Upsample>("upsample"),
          layer_kind<MeanPixels>("mean_pixels"),
          layer_kind<GroupNorm>("group_norm"),
          layer_kind<ConcatPort>("concat_port", shard::residual_traits())};
}

/// What holds images and texts against each other.
std::vector<LayerKind> pairing_kinds() {
  return {layer_kind<UnitRows>("unit_rows"),
          layer_kind<LastRow>("last_row"),
          layer_kind<PickedRow>("picked_row"),
          layer_kind<AttentionPool>("attention_pool"),
          layer_kind<ContrastiveLoss>("contrastive_loss"),
          layer_kind<SigmoidLoss>("sigmoid_loss")};
}

/// The ends of edges that are coded and tables that are packed, which processors alone know.
std::vector<LayerKind> coding_kinds() {
  return {layer_kind<Encode>("encode"), layer_kind<Decode>("decode"),
          layer_kind<Embedding>("packed_embedding", shard::embedding_traits())};
}

std::vector<LayerKind>& added_kinds() {
  static std::vector<LayerKind> kinds = [] {
    std::vector<LayerKind> all = joining_kinds();
    std::ranges::move(pairing_kinds(), std::back_inserter(all));
    for (LayerKind& kind : all) kind.on_accelerators = true;
    std::ranges::move(coding_kinds(), std::back_inserter(all));
    return all;
  }();
  return kinds;
}

}  // namespace

LayerKinds::LayerKinds()
    : kinds_({layer_kind<Linear>("linear", shard::linear_traits()),
              layer_kind<LoraDown>("lora_down", shard::lora_down_traits()),
              layer_kind<LoraLinear>("lora_linear", shard::lora_linear_traits()),
              layer_kind<LoraRow>("lora_row", shard::lora_row_traits()),
              layer_kind<LoraUp>("lora_up", shard::lora_up_traits()),
              layer_kind<Layernorm>("layernorm", shard::layernorm_traits()),
              layer_kind<Rmsnorm>("rmsnorm", shard::rmsnorm_traits()),
              layer_kind<QkNorm>("qknorm"),
              layer_kind<Attention>("attention", shard::attention_traits()),
              layer_kind<Gelu>("gelu", shard::activation_traits()),
              layer_kind<Swiglu>("swiglu", shard::activation_traits()),
              layer_kind<Geglu>("geglu", shard::activation_traits()),
              layer_kind<Residual>("residual", shard::residual_traits()),
              layer_kind<Embedding>("embedding", shard::embedding_traits()),
              layer_kind<Loss>("loss", shard::loss_traits()),
              layer_kind<ClassToken>("class_token"),
              layer_kind<FirstRow>("first_row"),
              layer_kind<ClassLoss>("class_loss"),
              layer_kind<Convolution>("convolution"),
              layer_kind<MaxPool>("max_pool"),
              layer_kind<Relu>("relu"),
              layer_kind<ChannelsFirst>("channels_first"),
              layer_kind<AddPort>("add_port", shard::residual_traits())}) {
  for (LayerKind& kind : kinds_) kind.on_accelerators = true;
  kinds_.insert(kinds_.end(), added_kinds().begin(), added_kinds().end());
}

void add_layer_kind(LayerKind kind) {
  LayerKinds().add(kind);  // which refuses a second one of that name
  added_kinds().push_back(std::move(kind));
}

void LayerKinds::add(LayerKind kind) {
  require(find(kind.name) == nullptr, "there is a kind of layer called \"", kind.name,
          "\" already; choose another name");
  kinds_.push_back(std::move(kind));
}

const LayerKind* LayerKinds::find(std::string_view name) const {
  const auto found = std::ranges::find(kinds_, name, &LayerKind::name);
  return found == kinds_.end() ? nullptr : &*found;
}

std::unique_ptr<Layer> LayerKinds::operator()(const LayerSpec& spec) const {
  const LayerKind* kind = find(spec.kind);
  require(kind != nullptr, "layer ", spec.name, " is of kind \"", spec.kind,
          "\", which cleave does not have; add a LayerKind of your own for it");
  return kind->make(spec);
}

shard::TraitsOf LayerKinds::traits() const {
  return [this](std::string_view name) {
    const LayerKind* kind = find(name);
    return kind == nullptr ? shard::LayerTraits{} : kind->traits;
  };
}

}  // namespace cleave
