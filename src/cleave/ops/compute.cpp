#include "cleave/ops/compute.h"

#include "cleave/base/check.h"
#include "cleave/ops/accelerator.h"
#include "cleave/ops/instruction_limit.h"
#include "cleave/ops/onednn/amx_matmul.h"

namespace cleave::ops {

Compute::Compute(int threads, Arithmetic arithmetic, Accelerator* accelerator)
    : threads_(threads),
      arithmetic_(arithmetic),
      accelerator_(accelerator),
      kernels_(onednn::make_kernels(threads)) {
  CLEAVE_CHECK(threads >= 1, threads, " threads");
  // Every kernel is called with a Compute: so none is chosen before the limit holds.
  instruction_limit();
}

Compute::~Compute() = default;
Compute::Compute(Compute&&) noexcept = default;
Compute& Compute::operator=(Compute&&) noexcept = default;

void Compute::finish() {
  if (accelerator_ != nullptr) accelerator_->finish();
}

void Compute::set_scratch(std::span<std::byte> bytes) {
  CLEAVE_CHECK(reinterpret_cast<std::uintptr_t>(bytes.data()) % 64 == 0, "scratch is not aligned");
  scratch_ = bytes;
}

}  // namespace cleave::ops
