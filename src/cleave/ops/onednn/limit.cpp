#include "cleave/ops/onednn/limit.h"

#include <algorithm>

#include <oneapi/dnnl/dnnl.hpp>

#if defined(__x86_64__)
#include <cpuid.h>
#endif

namespace cleave::ops::onednn {
namespace {

/// Whether the processor has AMX but does not say how large its tiles are, as in some virtual
/// machines. oneDNN then compiles kernels for tiles of no size, and the first of them is an illegal
/// instruction.
bool amx_lacks_tiles() {
#if defined(__x86_64__)
  constexpr unsigned kAmxTile = 1u << 24;
  unsigned a = 0, b = 0, c = 0, d = 0;
  const bool amx = __get_cpuid_count(7, 0, &a, &b, &c, &d) != 0 && (d & kAmxTile) != 0;
  return amx && (__get_cpuid_count(0x1D, 1, &a, &b, &c, &d) == 0 || b == 0 || c == 0);
#else
  return false;
#endif
}

}  // namespace

void limit(InstructionLevel level) {
  using dnnl::cpu_isa;
  if (amx_lacks_tiles()) level = std::min(level, InstructionLevel::Avx512Bf16);
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
