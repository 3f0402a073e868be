#include "cleave/ops/activation.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "cleave/ops/simd/activation.cpp"
#include <hwy/foreach_target.h>

#include "cleave/ops/device/elementwise.h"
#include "cleave/ops/simd/gate_functions-inl.h"
#include "cleave/ops/simd/rows.h"

#ifndef CLEAVE_OPS_SIMD_ACTIVATION_SPANS_
#define CLEAVE_OPS_SIMD_ACTIVATION_SPANS_
namespace cleave::ops {
namespace {

/// Elements of gelu_backward that lie one after another.
struct GeluBackwardSpan {
  const std::byte* x;
  const std::byte* dy;
  std::byte* dx;
  std::size_t n;
};

}  // namespace
}  // namespace cleave::ops
#endif

HWY_BEFORE_NAMESPACE();
namespace cleave::ops::HWY_NAMESPACE {
namespace {

template <class Form, class T>
void gelu_elements(const T* x, T* y, std::size_t n) {
  for_vectors(n, [=](std::size_t i, auto part)
                     HWY_ATTR { store(Form::value(load(x + i, part)), y + i, part); });
}

template <class Form, class T>
void gelu_backward_elements(const T* x, const T* dy, T* dx, std::size_t n) {
  for_vectors(n, [=](std::size_t i, auto part) HWY_ATTR {
    store(hn::Mul(load(dy + i, part), Form::slope(load(x + i, part))), dx + i, part);
  });
}

/// Calls fn(Form()) with the functions of a form.
template <class Fn>
HWY_INLINE void with_form(GeluForm form, const Fn& fn) {
  switch (form) {
    case GeluForm::Tanh:
      return fn(TanhGelu());
    case GeluForm::Exact:
      return fn(ExactGelu());
    case GeluForm::Quick:
      return fn(QuickGelu());
  }
}

template <class Form, class T>
void gated_elements(const T* gate, const T* up, T* y, std::size_t n) {
  for_vectors(n, [=](std::size_t i, auto part) HWY_ATTR {
    store(hn::Mul(Form::value(load(gate + i, part)), load(up + i, part)), y + i, part);
  });
}

template <class Form, class T>
void gated_backward_elements(const T* gate_up, const T* dy, T* dgate_up, std::size_t n) {
  for_vectors(n, [=](std::size_t i, auto part) HWY_ATTR {
    const Activated gate = Form::both(load(gate_up + i, part));
    const Vec u = load(gate_up + n + i, part);
    const Vec d = load(dy + i, part);
    store(hn::Mul(hn::Mul(d, u), gate.slope), dgate_up + i, part);
    store(hn::Mul(d, gate.value), dgate_up + n + i, part);
  });
}

void gelu_span(DType dtype, GeluForm form, const std::byte* x, std::byte* y, std::size_t n) {
  with_element(dtype, [=](auto element) HWY_ATTR {
    using T = decltype(element);
    with_form(form, [=](auto f) HWY_ATTR {
      gelu_elements<decltype(f)>(reinterpret_cast<const T*>(x), reinterpret_cast<T*>(y), n);
    });
  });
}

void gelu_backward_span(DType dtype, GeluForm form, const GeluBackwardSpan& span) {
  with_element(dtype, [=](auto element) HWY_ATTR {
    using T = decltype(element);
    with_form(form, [=](auto f) HWY_ATTR {
      gelu_backward_elements<decltype(f)>(reinterpret_cast<const T*>(span.x),
                                          reinterpret_cast<const T*>(span.dy),
                                          reinterpret_cast<T*>(span.dx), span.n);
    });
  });
}

template <class Form>
void gated_row(DType dtype, const std::byte* gate_up, std::byte* y, std::size_t n) {
  with_element(dtype, [=](auto element) HWY_ATTR {
    using T = decltype(element);
    const T* gate = reinterpret_cast<const T*>(gate_up);
    gated_elements<Form>(gate, gate + n, reinterpret_cast<T*>(y), n);
  });
}

template <class Form>
void gated_backward_row(DType dtype, const std::byte* gate_up, const std::byte* dy,
                        std::byte* dgate_up, std::size_t n) {
  with_element(dtype, [=](auto element) HWY_ATTR {
    using T = decltype(element);
    gated_backward_elements<Form>(reinterpret_cast<const T*>(gate_up),
                                  reinterpret_cast<const T*>(dy), reinterpret_cast<T*>(dgate_up),
                                  n);
  });
}

void swiglu_row(DType dtype, const std::byte* gate_up, std::byte* y, std::size_t n) {
  gated_row<Silu>(dtype, gate_up, y, n);
}
void swiglu_backward_row(DType dtype, const std::byte* gate_up, const std::byte* dy,
                         std::byte* dgate_up, std::size_t n) {
  gated_backward_row<Silu>(dtype, gate_up, dy, dgate_up, n);
}
void geglu_row(DType dtype, const std::byte* gate_up, std::byte* y, std::size_t n) {
  gated_row<TanhGelu>(dtype, gate_up, y, n);
}
void geglu_backward_row(DType dtype, const std::byte* gate_up, const std::byte* dy,
                        std::byte* dgate_up, std::size_t n) {
  gated_backward_row<TanhGelu>(dtype, gate_up, dy, dgate_up, n);
}

}  // namespace
}  // namespace cleave::ops::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace cleave::ops {

HWY_EXPORT(gelu_span);
HWY_EXPORT(gelu_backward_span);
HWY_EXPORT(swiglu_row);
HWY_EXPORT(swiglu_backward_row);
HWY_EXPORT(geglu_row);
HWY_EXPORT(geglu_backward_row);

namespace {

using GatedRow = void (*)(DType, const std::byte* gate_up, std::byte* y, std::size_t n);
using GatedBackwardRow = void (*)(DType, const std::byte* gate_up, const std::byte* dy,
                                  std::byte* dgate_up, std::size_t n);

/// What a gate is computed by, on processors and on accelerators.
struct GateKernels {
  GatedRow forward;
  GatedBackwardRow backward;
  device::Gate gate;
};

GateKernels silu_gate() {
  return {HWY_DYNAMIC_DISPATCH(swiglu_row), HWY_DYNAMIC_DISPATCH(swiglu_backward_row),
          device::Gate::Silu};
}
GateKernels gelu_gate() {
  return {HWY_DYNAMIC_DISPATCH(geglu_row), HWY_DYNAMIC_DISPATCH(geglu_backward_row),
          device::Gate::Gelu};
}

void run_gated(Compute& compute, ConstView gate_up, View y, const GateKernels& kernels) {
  const std::int64_t ffn = y.size(1);
  check_float("gated gate_up", gate_up);
  check_view("gated gate_up", gate_up, gate_up.dtype(), {y.size(0), 2 * ffn});
  check_view("gated y", y, gate_up.dtype(), y.shape());
  if (Accelerator* device = compute.accelerator())
    return device::gated(*device, kernels.gate, gate_up, y);
  parallel_for(compute, y.size(0), 4, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t row = begin; row < end; ++row) {
      kernels.forward(y.dtype(), row_bytes(gate_up, row), row_bytes(y, row), ffn);
    }
  });
}

void run_gated_backward(Compute& compute, ConstView gate_up, ConstView dy, View dgate_up,
                        const GateKernels& kernels) {
  const std::int64_t ffn = dy.size(1);
  check_float("gated gate_up", gate_up);
  check_view("gated gate_up", gate_up, gate_up.dtype(), {dy.size(0), 2 * ffn});
  check_view("gated dy", dy, gate_up.dtype(), dy.shape());
  check_view("gated dgate_up", dgate_up, gate_up.dtype(), gate_up.shape());
  if (Accelerator* device = compute.accelerator())
    return device::gated_backward(*device, kernels.gate, gate_up, dy, dgate_up);
  parallel_for(compute, dy.size(0), 4, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t row = begin; row < end; ++row) {
      kernels.backward(dy.dtype(), row_bytes(gate_up, row), row_bytes(dy, row),
                       row_bytes(dgate_up, row), ffn);
    }
  });
}

}  // namespace

void gelu(Compute& compute, ConstView x, View y, GeluForm form) {
  check_float("gelu x", x);
  check_view("gelu x", x, x.dtype(), x.shape());
  check_view("gelu y", y, x.dtype(), x.shape());
  if (Accelerator* device = compute.accelerator()) return device::gelu(*device, x, y, form);
  for_spans(compute, {x, y}, [&](std::int64_t row, std::int64_t column, std::int64_t n) {
    HWY_DYNAMIC_DISPATCH(gelu_span)
    (x.dtype(), form, row_bytes(x, row, column), row_bytes(y, row, column), n);
  });
}

void gelu_backward(Compute& compute, ConstView x, ConstView dy, View dx, GeluForm form) {
  check_float("gelu x", x);
  check_view("gelu x", x, x.dtype(), x.shape());
  check_view("gelu dy", dy, x.dtype(), x.shape());
  check_view("gelu dx", dx, x.dtype(), x.shape());
  if (Accelerator* device = compute.accelerator())
    return device::gelu_backward(*device, x, dy, dx, form);
  for_spans(compute, {x, dy, dx}, [&](std::int64_t row, std::int64_t column, std::int64_t n) {
    HWY_DYNAMIC_DISPATCH(gelu_backward_span)
    (x.dtype(), form,
     {row_bytes(x, row, column), row_bytes(dy, row, column), row_bytes(dx, row, column),
      static_cast<std::size_t>(n)});
  });
}

void swiglu(Compute& compute, ConstView gate_up, View y) {
  run_gated(compute, gate_up, y, silu_gate());
}

void swiglu_backward(Compute& compute, ConstView gate_up, ConstView dy, View dgate_up) {
  run_gated_backward(compute, gate_up, dy, dgate_up, silu_gate());
}

void geglu(Compute& compute, ConstView gate_up, View y) {
  run_gated(compute, gate_up, y, gelu_gate());
}

void geglu_backward(Compute& compute, ConstView gate_up, ConstView dy, View dgate_up) {
  run_gated_backward(compute, gate_up, dy, dgate_up, gelu_gate());
}

}  // namespace cleave::ops
#endif
