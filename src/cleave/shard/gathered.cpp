#include "cleave/shard/gathered.h"

#include <utility>

#include "cleave/base/check.h"

namespace cleave::shard {
namespace {

TensorSpec own_rows(TensorSpec whole, const TensorShare& share, const std::string& layer) {
  require(share.uneven || whole.shape[0] % share.devices == 0, "the ", whole.shape[0],
          " rows of a microbatch in layer ", layer, " cannot be divided among ", share.devices,
          " devices; set parallel.sequence_parallel = false");
  whole.shape = whole.shape.with(0, share.own_tokens(whole.shape[0]));
  return whole;
}

}  // namespace

LayerSpec gathered(const TensorShare& share, const DividedEnds& ends, LayerSpec whole) {
  require(whole.skip < 0 && !whole.dx_is_dy, "layer ", whole.name, " of kind \"", whole.kind,
          "\" passes rows through, but its kind does not say how to compute some of them; set "
          "parallel.sequence_parallel = false");
  GatheredAttributes attributes{.devices = share.devices, .divides_x = ends.x, .divides_y = ends.y};
  LayerSpec spec = whole;
  spec.kind = "gathered";
  spec.kept_by_forward.clear();
  spec.kept_by_input.clear();
  if (ends.x) {
    spec.x = own_rows(whole.x, share, whole.name);
    spec.x_until = Until::Forward;
    if (whole.x_until != Until::Forward) {
      attributes.x = static_cast<int>(spec.kept_by_forward.size());
      spec.kept_by_forward.push_back({whole.x, whole.x_until});
    }
  }
  if (ends.y) {
    spec.y = own_rows(whole.y, share, whole.name);
    spec.y_until = Until::Forward;
    spec.dy_until = Until::Input;
    if (whole.y_until != Until::Forward) {
      attributes.y = static_cast<int>(spec.kept_by_forward.size());
      spec.kept_by_forward.push_back({whole.y, whole.y_until});
    }
    if (whole.dy_until == Until::Weight) {
      attributes.dy = 0;
      spec.kept_by_input.push_back({"dy", whole.y.dtype, whole.y.shape});
    }
  }
  for (const KeptTensor& kept : whole.kept_by_forward) spec.kept_by_forward.push_back(kept);
  for (const TensorSpec& kept : whole.kept_by_input) spec.kept_by_input.push_back(kept);
  attributes.whole.push_back(std::move(whole));
  spec.attributes = std::move(attributes);
  return spec;
}

}  // namespace cleave::shard
