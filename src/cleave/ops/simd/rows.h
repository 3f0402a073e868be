#pragma once

#include <initializer_list>

#include "cleave/base/check.h"
#include "cleave/ops/parallel.h"
#include "cleave/tensor/view.h"

namespace cleave::ops {

/// Elements worth a thread of their own; also the grid on which threads cut long rows.
inline constexpr std::int64_t kSpanGrain = 4096;

inline bool contiguous_rows(ConstView view) {
  const int last = view.rank() - 1;
  return view.rank() == 0 || view.size(last) <= 1 || view.stride(last) == 1;
}

/// Throws InternalError unless `view` is what the kernel was written for.
inline void check_view(const char* name, ConstView view, DType dtype, const Shape& shape) {
  CLEAVE_CHECK(view.shape() == shape, name, " is ", to_string(view.shape()), ", not ",
               to_string(shape));
  CLEAVE_CHECK(view.dtype() == dtype, name, " is ", to_string(view.dtype()), ", not ",
               to_string(dtype));
  CLEAVE_CHECK(contiguous_rows(view), name, " has strided rows");
}

inline void check_float(const char* name, ConstView view) {
  CLEAVE_CHECK(view.dtype() == DType::F32 || view.dtype() == DType::BF16, name, " is ",
               to_string(view.dtype()));
}

/// The first element of row `row`, counting rows over all dims but the last.
template <class Byte>
Byte* row_bytes(const BasicView<Byte>& view, std::int64_t row, std::int64_t column = 0) {
  std::int64_t offset = column;
  for (int dim = view.rank() - 2; dim >= 0; --dim) {
    offset += row % view.size(dim) * view.stride(dim);
    row /= view.size(dim);
  }
  return view.bytes() + offset * size_of(view.dtype());
}

/// Row `row` of a matrix, or the vector itself.
template <class T, class Byte>
auto* row_of(const BasicView<Byte>& view, std::int64_t row) {
  using Element = std::conditional_t<std::is_const_v<Byte>, const T, T>;
  return reinterpret_cast<Element*>(view.bytes()) + row * view.stride(0);
}

/// Calls fn(row, column, count) on pieces that cover every element of views of one shape once.
/// Views that are all dense count as one long row.
template <class Fn>
void for_spans(const Compute& compute, std::initializer_list<ConstView> views, const Fn& fn) {
  const ConstView first = *views.begin();
  const std::int64_t elements = first.elements();
  if (elements == 0) return;
  bool dense = true;
  for (ConstView view : views) dense = dense && view.dense();
  if (dense) {
    parallel_for(compute, elements, kSpanGrain,
                 [&](std::int64_t begin, std::int64_t end) { fn(0, begin, end - begin); });
    return;
  }
  const std::int64_t columns = first.size(first.rank() - 1);
  const std::int64_t grain = (kSpanGrain + columns - 1) / columns;
  parallel_for(compute, elements / columns, grain, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t row = begin; row < end; ++row) fn(row, 0, columns);
  });
}

}  // namespace cleave::ops
