#pragma once

#include <cstddef>
#include <cstdint>

#include <oneapi/dnnl/dnnl.hpp>

#include "cleave/spec/matmul_spec.h"

namespace cleave::ops::onednn {

/// Where the operands of one call are.
struct MatmulPointers {
  const void* a;
  const void* b;
  void* out;
  const void* bias = nullptr;
  std::byte* scratch = nullptr;
};

/// One product, compiled for a team of threads.
class MatmulKernel {
 public:
  MatmulKernel(const dnnl::engine& engine, const MatmulSpec& spec, int threads);

  std::int64_t scratch_bytes() const { return scratch_bytes_; }

  void run(const MatmulPointers& at);

 private:
  int threads_;
  dnnl::stream stream_;
  dnnl::matmul primitive_;
  std::int64_t scratch_bytes_ = 0;
  // oneDNN's handles of the operands, made once: a call only changes the addresses in them.
  dnnl::memory a_, b_, out_, bias_, scratch_;
};

}  // namespace cleave::ops::onednn
