#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

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

/// One compiled product. Threads of a team may run it at the same time, each in its own slot.
class MatmulKernel {
 public:
  /// Compiled for a team of `threads`.
  MatmulKernel(const dnnl::engine& engine, const MatmulSpec& spec, int threads, int slots);

  std::int64_t scratch_bytes() const { return scratch_bytes_; }

  void run(const MatmulPointers& at, int slot = 0);

 private:
  // oneDNN's handles of the operands, made once: a call only changes the addresses in them.
  struct Slot {
    dnnl::stream stream;
    dnnl::memory a, b, out, bias, scratch;
  };

  dnnl::matmul primitive_;
  std::int64_t scratch_bytes_ = 0;
  std::vector<Slot> slots_;
};

}  // namespace cleave::ops::onednn
