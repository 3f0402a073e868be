// In place of Highway's library where everything is linked in: there is no static one. Kernels need
// nothing of it but the answer to which of their instruction sets this processor has.

#include <atomic>
#include <cstdarg>
#include <cstdio>
#include <cstdlib>

#include <hwy/highway.h>
#include <hwy/targets.h>

namespace hwy {
namespace {

std::atomic<std::int64_t> disabled{0};

/// What the processor has, as Highway counts it: each of its sets is several of the processor's.
std::int64_t of_this_processor() {
  std::int64_t targets = HWY_STATIC_TARGET;
#if HWY_ARCH_X86
  __builtin_cpu_init();
  const bool sse4 = __builtin_cpu_supports("sse4.2") && __builtin_cpu_supports("pclmul") &&
                    __builtin_cpu_supports("aes");
  const bool avx2 = sse4 && __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") &&
                    __builtin_cpu_supports("bmi") && __builtin_cpu_supports("bmi2") &&
                    __builtin_cpu_supports("f16c");
  const bool avx3 = avx2 && __builtin_cpu_supports("avx512f") &&
                    __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq") &&
                    __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512cd");
  if (sse4) targets |= HWY_SSE4;
  if (avx2) targets |= HWY_AVX2;
  if (avx3) targets |= HWY_AVX3;
#endif
  return targets;
}

}  // namespace

std::int64_t SupportedTargets() {
  static const std::int64_t targets = of_this_processor();
  const std::int64_t allowed = targets & ~disabled.load();
  return allowed != 0 ? allowed : HWY_STATIC_TARGET;
}

void DisableTargets(std::int64_t targets) {
  disabled.store(targets);
  GetChosenTarget().DeInit();
}

ChosenTarget& GetChosenTarget() {
  static ChosenTarget chosen;
  return chosen;
}

void Abort(const char* file, int line, const char* format, ...) {
  std::fprintf(stderr, "%s:%d: ", file, line);
  std::va_list values;
  va_start(values, format);
  std::vfprintf(stderr, format, values);
  va_end(values);
  std::abort();
}

}  // namespace hwy
