#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <string>
#include <vector>

#include "cleave/base/philox.h"
#include "cleave/ops/adamw.h"
#include "cleave/ops/compute.h"
#include "cleave/ops/matmul.h"
#include "cleave/ops/reduce.h"
#include "cleave/tensor/view.h"

namespace cleave::train {

/// A tensor of f32 on the heap.
struct HeapTensor {
  HeapTensor(std::int64_t rows, std::int64_t columns)
      : elements(static_cast<std::size_t>(rows * columns)), shape{rows, columns} {}
  View view() { return View(reinterpret_cast<std::byte*>(elements.data()), DType::F32, shape); }
  View flat() { return view().reshaped({view().elements()}); }

  std::vector<float> elements;
  Shape shape;
};

/// A matrix that is learned, with its gradient and the moments of AdamW.
struct Learned {
  Learned(std::int64_t rows, std::int64_t columns)
      : value(rows, columns), gradient(rows, columns), m(rows, columns), v(rows, columns) {}

  void update(ops::Compute& compute, const ops::AdamwHyper& hyper) {
    ops::adamw(compute, {value.flat(), m.flat(), v.flat(), gradient.flat()}, hyper);
  }

  HeapTensor value, gradient, m, v;
};

/// y = x · weight + bias.
struct LearnedLinear {
  LearnedLinear(std::int64_t in, std::int64_t out, std::uint64_t seed, const std::string& name)
      : weight(in, out), bias(1, out) {
    Philox(seed, "inverter", name).fill_normal(0, weight.value.elements);
    const float deviation = 1 / std::sqrt(static_cast<float>(in));
    for (float& element : weight.value.elements) element *= deviation;
  }

  void forward(ops::Compute& compute, ConstView x, View y) {
    ops::matmul(compute, x, weight.value.view(), y, {.bias = bias.value.flat()});
  }
  void backward_weight(ops::Compute& compute, ConstView x, ConstView dy) {
    ops::matmul(compute, x.transposed(), dy, weight.gradient.view());
    std::ranges::fill(bias.gradient.elements, 0.0f);
    ops::add_column_sums(compute, dy, bias.gradient.flat());
  }
  void update(ops::Compute& compute, const ops::AdamwHyper& hyper) {
    weight.update(compute, hyper);
    bias.update(compute, hyper);
  }

  Learned weight, bias;
};

}  // namespace cleave::train
