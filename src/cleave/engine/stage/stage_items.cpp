// The layers of a stage for microbatches with fewer items than there is room for.

#include <algorithm>

#include "cleave/base/check.h"
#include "cleave/engine/stage/stage.h"
#include "cleave/ops/elementwise.h"

namespace cleave::engine {
namespace {

/// Zeros from the end of `made` to where a tensor of shape `whole` would end.
void clear_after(ops::Compute& compute, View made, const Shape& whole) {
  if (!made || made.elements() == whole.elements()) return;
  const DType zeros = made.dtype() == DType::BF16 ? DType::BF16 : DType::F32;
  ops::fill(compute, 0,
            View(made.bytes() + made.byte_count(), zeros, {whole.elements() - made.elements()}));
}

bool leaves_stage(const std::optional<PortSource>& source) {
  return source && source->edge >= 0 && source->wants_gradient;
}

}  // namespace

/// Every layer has the parameters, sums and places of the one that computes all items.
Stage::Made Stage::make_layers(std::int64_t items, std::span<const SegmentSpec> segments,
                               const LayerFactory& make) {
  Made made{.items = items};
  std::size_t parameter = 0;
  std::size_t sum = 0;
  for (std::size_t s = 0; s < segments_.size(); ++s) {
    const plan::StageLayout& layout = layouts_[s];
    const std::vector<LayerSpec>& usual = segments_[s].layers;
    const std::vector<LayerSpec>& layers = segments[s].layers;
    CLEAVE_CHECK(layers.empty() || layers.size() == usual.size(), segments_[s].name, " has ",
                 layers.size(), " layers for ", items, " items, and ", usual.size(), " for all");
    std::vector<Entry>& entries = made.segments.emplace_back();
    for (std::size_t k = 0; k < usual.size(); ++k) {
      if (!layers.empty()) {
        const LayerSpec& layer = layers[k];
        CLEAVE_CHECK(layer.kind == usual[k].kind, layer.name, " is of another kind for ", items,
                     " items");
        entries.push_back({make(layer), &layout.layers[k],
                           layout.first.empty() ? nullptr : &layout.first[k], parameter, sum});
        room_.resize(std::max(room_.size(), 2 * layer.reads.size() + layer.kept_by_forward.size() +
                                                layer.kept_by_input.size() +
                                                layer.collected.size()));
      }
      parameter += usual[k].parameters.size();
      sum += usual[k].sums.size();
    }
  }
  return made;
}

const Stage::Made& Stage::made_for(std::int64_t items) const {
  if (items == SegmentPass::kAllItems) return made_.front();
  const auto found =
      std::ranges::lower_bound(made_.begin() + 1, made_.end(), items, {}, &Made::items);
  if (found == made_.end()) return made_.front();
  CLEAVE_CHECK(found->items == items || found == made_.begin() + 1, "no layers are for ", items,
               " items");
  return *found;
}

std::span<const Stage::Entry> Stage::entries(const SegmentPass& pass) const {
  const std::vector<Entry>& fewer = made_for(pass.items).segments[pass.segment];
  return fewer.empty() ? made_.front().segments[pass.segment] : fewer;
}

const LayerSpec& Stage::layer(int segment, int index, std::int64_t items) const {
  return entries({.segment = segment, .items = items})[static_cast<std::size_t>(index)]
      .layer->spec();
}

void Stage::clear_after_output(ops::Compute& compute, const SegmentPass& pass) const {
  const auto leaves = [](int edge) { return edge >= 0; };
  if (!has_fewer() || std::ranges::none_of(ports_[pass.segment].targets, leaves)) return;
  const std::vector<Entry>& all = made_.front().segments[pass.segment];
  const Entry& last = entries(pass).back();
  const TensorSpec& y = last.layer->spec().y;
  const Shape& whole = all.back().layer->spec().y.shape;
  clear_after(compute, view_at(pass.frame, last.places->y, y), whole);
  for (std::byte* copy : pass.frame.copies)
    clear_after(compute, View(copy, y.dtype, y.shape), whole);
}

void Stage::clear_after_gradients(ops::Compute& compute, const SegmentPass& pass,
                                  Backward how) const {
  if (!has_fewer()) return;
  const SegmentPorts& ports = ports_[pass.segment];
  const std::span<const Entry> made = entries(pass);
  std::size_t port = 0;
  for (std::size_t k = 0; k < made.size(); ++k) {
    const LayerSpec& spec = made[k].layer->spec();
    const LayerSpec& all = made_.front().segments[pass.segment][k].layer->spec();
    const plan::BackwardPlaces& places =
        how == Backward::Split ? made[k].places->split : made[k].places->fused;
    if (k == 0 && leaves_stage(ports.x))
      clear_after(compute, gradient_at(pass.frame, places.dx, spec.x), all.x.gradient_shape());
    for (std::size_t i = 0; i < spec.reads.size(); ++i, ++port)
      if (leaves_stage(ports.reads[port]))
        clear_after(compute,
                    View(pass.frame.ports[2 * port + 1], spec.reads[i].tensor.dtype,
                         spec.reads[i].tensor.shape),
                    all.reads[i].tensor.shape);
  }
}

}  // namespace cleave::engine
