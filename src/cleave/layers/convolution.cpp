#include "cleave/layers/convolution.h"

#include <algorithm>

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
  const std::int64_t rows = y.size(0) * window_of(spec).places();
  return y.reshaped({rows, y.elements() / rows});
}

/// Some images, and room for their rows.
struct Images {
  std::int64_t first;
  std::int64_t count;
  View columns;

  template <class Byte>
  BasicView<Byte> of(const BasicView<Byte>& all) const {
    return all.slice(0, first, count);
  }
};

/// Calls fn(images) for groups of images whose rows stay in the caches of the threads until they
/// are read. Results of an image depend on no other: no group changes a bit of them.
template <class Fn>
void for_cached_images(ops::Compute& compute, const LayerSpec& spec, std::byte* room,
                       const Fn& fn) {
  // A product packs its weights anew for each group, so rows that the last caches hold stay one.
  constexpr std::int64_t kCachedBytes = 256 * 1024;
  constexpr std::int64_t kWholeBytes = 1024 * 1024;
  const Shape all = columns_of(spec);
  const std::int64_t samples = spec.x.shape[0];
  const std::int64_t rows = window_of(spec).places();
  const std::int64_t bytes = rows * all[1] * size_of(spec.x.dtype);
  const std::int64_t cached = std::max<std::int64_t>(1, kCachedBytes / bytes) * compute.threads();
  const bool whole = compute.accelerator() || samples * bytes <= kWholeBytes * compute.threads();
  const std::int64_t group = whole ? samples : std::min(cached, samples);
  for (std::int64_t first = 0; first < samples; first += group) {
    const std::int64_t count = std::min(group, samples - first);
    fn(Images{first, count, View(room, spec.x.dtype, {count * rows, all[1]})});
  }
}

}  // namespace

std::int64_t Convolution::scratch_bytes(ops::Compute& compute) const {
  // The rows stay in scratch while the products run.
  return spec().scratch + product_scratch_bytes(compute);
}

void Convolution::forward(ops::Compute& compute, const LayerCall& call) {
  const ops::ScratchClaim claim(compute, spec().scratch);
  for_cached_images(compute, spec(), claim.data(), [&](const Images& images) {
    ops::unfold(compute, window_of(spec()), images.of(call.x), images.columns);
    ops::matmul(compute, images.columns, ConstView(parameter(0).value).transposed(),
                by_place(images.of(call.y), spec()), {.bias = parameter(1).value});
  });
}

void Convolution::backward_input(ops::Compute& compute, const LayerCall& call) {
  if (!call.dx) return;
  const ops::ScratchClaim claim(compute, spec().scratch);
  for_cached_images(compute, spec(), claim.data(), [&](const Images& images) {
    ops::matmul(compute, by_place(images.of(call.dy), spec()), parameter(0).value, images.columns);
    ops::fold(compute, window_of(spec()), images.columns, images.of(call.dx));
  });
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
