#pragma once

#include <cstddef>
#include <unordered_map>

#include <oneapi/dnnl/dnnl.hpp>

#include "cleave/ops/compute.h"
#include "cleave/ops/onednn/matmul_kernel.h"
#include "cleave/spec/matmul_spec.h"

namespace cleave::ops::onednn {

/// The compiled kernels of one device, found again by what they compute.
class MatmulKernels : public Compute::Kernels {
 public:
  explicit MatmulKernels(int threads) : threads_(threads), engine_(dnnl::engine::kind::cpu, 0) {}

  MatmulKernel& matmul(const MatmulSpec& spec);

 private:
  struct Hash {
    std::size_t operator()(const MatmulSpec& spec) const;
  };

  int threads_;
  dnnl::engine engine_;
  std::unordered_map<MatmulSpec, MatmulKernel, Hash> matmuls_;
};

}  // namespace cleave::ops::onednn
