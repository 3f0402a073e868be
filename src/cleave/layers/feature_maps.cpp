#include "cleave/layers/feature_maps.h"

#include "cleave/ops/elementwise.h"
#include "cleave/ops/feature_maps.h"

namespace cleave {
namespace {

// Indices into what the spec of a group norm declares (spec/map_layers.cpp).
constexpr int kMean = 0;
constexpr int kRstd = 1;

}  // namespace

void Pad::forward(ops::Compute& compute, const LayerCall& call) {
  const auto& [map, margin] = spec().as<MapAttributes>();
  ops::pad(compute, map, margin, call.x, call.y);
}

void Pad::backward_input(ops::Compute& compute, const LayerCall& call) {
  const auto& [map, margin] = spec().as<MapAttributes>();
  if (call.dx) ops::crop(compute, map, margin, call.dy, call.dx);
}

void Upsample::forward(ops::Compute& compute, const LayerCall& call) {
  const auto& [map, by] = spec().as<MapAttributes>();
  ops::upsample(compute, map, by, call.x, call.y);
}

void Upsample::backward_input(ops::Compute& compute, const LayerCall& call) {
  const auto& [map, by] = spec().as<MapAttributes>();
  if (call.dx) ops::sum_squares(compute, map, by, call.dy, call.dx);
}

void MeanPixels::forward(ops::Compute& compute, const LayerCall& call) {
  ops::mean_pixels(compute, call.x, call.y);
}

void MeanPixels::backward_input(ops::Compute& compute, const LayerCall& call) {
  if (call.dx) ops::mean_pixels_backward(compute, call.dy, call.dx);
}

void GroupNorm::forward(ops::Compute& compute, const LayerCall& call) {
  const auto& attributes = spec().as<GroupAttributes>();
  ops::group_norm(compute, {.x = call.x,
                            .weight = parameter(0).value,
                            .bias = parameter(1).value,
                            .groups = attributes.groups,
                            .eps = attributes.epsilon,
                            .y = call.y,
                            .mean = call.kept_by_forward[kMean],
                            .rstd = call.kept_by_forward[kRstd]});
}

void GroupNorm::backward_input(ops::Compute& compute, const LayerCall& call) {
  if (!call.dx) return;
  ops::group_norm_backward(compute, {.dy = call.dy,
                                     .x = call.x,
                                     .weight = parameter(0).value,
                                     .mean = call.kept_by_forward[kMean],
                                     .rstd = call.kept_by_forward[kRstd],
                                     .dx = call.dx});
}

void GroupNorm::backward_weight(ops::Compute& compute, const LayerCall& call) {
  const View dweight = is_trained(0) ? gradient(0, call) : View();
  const View dbias = is_trained(1) ? gradient(1, call) : View();
  if (call.gradient == Write::Overwrite) {
    if (dweight) ops::fill(compute, 0, dweight);
    if (dbias) ops::fill(compute, 0, dbias);
  }
  ops::add_group_norm_gradients(compute, {.dy = call.dy,
                                          .x = call.x,
                                          .mean = call.kept_by_forward[kMean],
                                          .rstd = call.kept_by_forward[kRstd],
                                          .dweight = dweight,
                                          .dbias = dbias});
}

}  // namespace cleave
