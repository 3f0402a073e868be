#include "cleave/ops/onednn/limit.h"

#include <oneapi/dnnl/dnnl.hpp>

namespace cleave::ops::onednn {

void limit(InstructionLevel level) {
  using dnnl::cpu_isa;
  // oneDNN begins at SSE4.1.
  constexpr cpu_isa kHighest[] = {cpu_isa::sse41,
                                  cpu_isa::sse41,
                                  cpu_isa::avx2,
                                  cpu_isa::avx512_core_vnni,
                                  cpu_isa::avx512_core_bf16,
                                  cpu_isa::all};
  const cpu_isa highest = kHighest[static_cast<int>(level)];
  // Left alone, it follows its own variables.
  if (highest != cpu_isa::all) dnnl::set_max_cpu_isa(highest);
}

}  // namespace cleave::ops::onednn
