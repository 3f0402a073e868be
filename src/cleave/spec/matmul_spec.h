#pragma once

#include <compare>
#include <cstdint>

#include "cleave/spec/dtype.h"

namespace cleave {

enum class Transpose : std::uint8_t { No, Yes };
enum class Write : std::uint8_t { Overwrite, Accumulate };
enum class Bias : std::uint8_t { None, Add };

/// One matrix product, as data: out [batch, m, n] = a [batch, m, k] · b [batch, k, n].
///
/// Enough to build the kernel, to ask for its scratch and to count its work. A transposed operand
/// is stored with its dims exchanged; `*_stride` is the distance in elements between stored rows.
struct MatmulSpec {
  std::int64_t m = 0;
  std::int64_t n = 0;
  std::int64_t k = 0;
  std::int64_t batch = 1;
  DType in = DType::F32;
  DType out = DType::F32;
  Transpose a = Transpose::No;
  Transpose b = Transpose::No;
  std::int64_t a_stride = 0;
  std::int64_t b_stride = 0;
  std::int64_t out_stride = 0;
  std::int64_t a_batch_stride = 0;
  std::int64_t b_batch_stride = 0;
  std::int64_t out_batch_stride = 0;
  Write write = Write::Overwrite;
  Bias bias = Bias::None;
  DType bias_dtype = DType::F32;

  std::int64_t flops() const { return 2 * batch * m * n * k; }

  friend auto operator<=>(const MatmulSpec&, const MatmulSpec&) = default;
};

/// A product that is done `count` times.
struct CountedMatmul {
  MatmulSpec spec;
  std::int64_t count = 1;
};

}  // namespace cleave
