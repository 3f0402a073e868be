#include "cleave/ops/onednn/kernels.h"

#include <cstdint>

namespace cleave::ops::onednn {

std::size_t MatmulKernels::Hash::operator()(const MatmulSpec& spec) const {
  std::uint64_t hash = 0;
  const auto mix = [&](auto value) {
    hash = (hash ^ static_cast<std::uint64_t>(value)) * 0x9E3779B97F4A7C15ull;
    hash ^= hash >> 29;
  };
  for (std::int64_t size :
       {spec.m, spec.n, spec.k, spec.batch, spec.a_stride, spec.b_stride, spec.out_stride,
        spec.a_batch_stride, spec.b_batch_stride, spec.out_batch_stride}) {
    mix(size);
  }
  mix(spec.in);
  mix(spec.out);
  mix(spec.a);
  mix(spec.b);
  mix(spec.write);
  mix(spec.bias);
  mix(spec.bias_dtype);
  return hash;
}

MatmulKernel& MatmulKernels::matmul(const MatmulSpec& spec) {
  // try_emplace alone would allocate the node before it looks.
  if (const auto found = matmuls_.find(spec); found != matmuls_.end()) return found->second;
  return matmuls_.try_emplace(spec, engine_, spec, threads_).first->second;
}

}  // namespace cleave::ops::onednn
