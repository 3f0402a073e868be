#include "cleave/ops/onednn/kernels.h"

#include <cstdint>

namespace cleave::ops {

std::size_t Compute::Kernels::Hash::operator()(const MatmulSpec& spec) const {
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

onednn::MatmulKernel& Compute::Kernels::find(Cache& cache, const MatmulSpec& spec, int threads,
                                             int slots) {
  if (const auto found = cache.find(spec); found != cache.end()) return found->second;
  return cache.try_emplace(spec, engine_, spec, threads, slots).first->second;
}

onednn::MatmulKernel& Compute::Kernels::team_matmul(const MatmulSpec& spec) {
  return find(by_team_, spec, threads_, 1);
}

onednn::MatmulKernel& Compute::Kernels::thread_matmul(const MatmulSpec& spec) {
  return find(by_thread_, spec, 1, threads_);
}

}  // namespace cleave::ops
