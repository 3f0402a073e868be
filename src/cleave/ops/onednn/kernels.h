#pragma once

#include <cstddef>
#include <unordered_map>

#include <oneapi/dnnl/dnnl.hpp>

#include "cleave/ops/compute.h"
#include "cleave/ops/onednn/matmul_kernel.h"
#include "cleave/spec/matmul_spec.h"

namespace cleave::ops {

/// The compiled kernels of one device, found again by what they compute.
class Compute::Kernels {
 public:
  explicit Kernels(int threads) : threads_(threads), engine_(dnnl::engine::kind::cpu, 0) {}

  /// The product run by the whole team.
  onednn::MatmulKernel& team_matmul(const MatmulSpec& spec);

  /// The product run by one thread; each thread of the team may run it at the same time, in the
  /// slot of its own number.
  onednn::MatmulKernel& thread_matmul(const MatmulSpec& spec);

 private:
  struct Hash {
    std::size_t operator()(const MatmulSpec& spec) const;
  };
  using Cache = std::unordered_map<MatmulSpec, onednn::MatmulKernel, Hash>;

  onednn::MatmulKernel& find(Cache& cache, const MatmulSpec& spec, int threads, int slots);

  int threads_;
  dnnl::engine engine_;
  Cache by_team_;
  Cache by_thread_;
};

}  // namespace cleave::ops
