#include "cleave/layers/convolution.h"

#include "cleave/ops/elementwise.h"
#include "cleave/ops/matmul.h"
#include "cleave/ops/reduce.h"
#include "cleave/ops/scratch_claim.h"
#include "cleave/ops/windows.h"

namespace cleave {
namespace {

const WindowShape& window_of(const LayerSpec& spec) {
  return spec.as<WindowAttributes>().window;
}

/// A row for each place of each image.
Shape columns_of(const LayerSpec& spec) {
  const WindowShape& window = window_of(spec);
  return {spec.x.shape[0] * window.places(), window.channels * window.size * window.size};
}

/// [samples, places · out] as [samples · places, out].
template <class Byte>
BasicView<Byte> by_place(const BasicView<Byte>& y, const LayerSpec& spec) {
  const std::int64_t rows = columns_of(spec)[0];
  return y.reshaped({rows, y.elements() / rows});
}

}  // namespace

std::int64_t Convolution::scratch_bytes(ops::Compute& compute) const {
  // The rows stay in scratch while the products run.
  return spec().scratch + product_scratch_bytes(compute);
}

void Convolution::forward(ops::Compute& compute, const LayerCall& call) {
  const ops::ScratchClaim claim(compute, spec().scratch);
  const View columns(claim.data(), call.x.dtype(), columns_of(spec()));
  ops::unfold(compute, window_of(spec()), call.x, columns);
  ops::matmul(compute, columns, ConstView(parameter(0).value).transposed(),
              by_place(call.y, spec()), {.bias = parameter(1).value});
}

void Convolution::backward_input(ops::Compute& compute, const LayerCall& call) {
  if (!call.dx) return;
  const ops::ScratchClaim claim(compute, spec().scratch);
  const View columns(claim.data(), call.dx.dtype(), columns_of(spec()));
  ops::matmul(compute, by_place(call.dy, spec()), parameter(0).value, columns);
  ops::fold(compute, window_of(spec()), columns, call.dx);
}

void Convolution::backward_weight(ops::Compute& compute, const LayerCall& call) {
  const ConstView dy = by_place(call.dy, spec());
  if (is_trained(0)) {
    const ops::ScratchClaim claim(compute, spec().scratch);
    const View columns(claim.data(), call.x.dtype(), columns_of(spec()));
    ops::unfold(compute, window_of(spec()), call.x, columns);
    ops::matmul(compute, dy.transposed(), columns, gradient(0, call), {.write = call.gradient});
  }
  if (!is_trained(1)) return;
  if (call.gradient == Write::Overwrite) ops::fill(compute, 0, gradient(1, call));
  ops::add_column_sums(compute, dy, gradient(1, call));
}

void MaxPool::forward(ops::Compute& compute, const LayerCall& call) {
  ops::max_pool(compute, window_of(spec()), call.x, call.y);
}

void MaxPool::backward_input(ops::Compute& compute, const LayerCall& call) {
  ops::max_pool_backward(compute, window_of(spec()), call.x, call.dy, call.dx);
}

void Relu::forward(ops::Compute& compute, const LayerCall& call) {
  ops::relu(compute, call.x, call.y);
}

void Relu::backward_input(ops::Compute& compute, const LayerCall& call) {
  ops::relu_backward(compute, call.x, call.dy, call.dx);
}

void ChannelsFirst::forward(ops::Compute& compute, const LayerCall& call) {
  ops::to_channels_first(compute, spec().as<ChannelAttributes>().channels, call.x, call.y);
}

void ChannelsFirst::backward_input(ops::Compute& compute, const LayerCall& call) {
  ops::to_channels_last(compute, spec().as<ChannelAttributes>().channels, call.dy, call.dx);
}

}  // namespace cleave
