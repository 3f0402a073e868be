#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "cleave/base/check.h"
#include "cleave/base/units.h"
#include "cleave/ops/compute.h"

namespace cleave::ops {

/// Takes `bytes` off the front of a device's scratch until it goes out of scope, so that the ops
/// called meanwhile use the rest.
class ScratchClaim {
 public:
  ScratchClaim(Compute& compute, std::int64_t bytes)
      : compute_(compute), whole_(compute.scratch()) {
    const auto count = static_cast<std::size_t>(aligned(bytes));
    CLEAVE_CHECK(count <= whole_.size(), "scratch has ", whole_.size(), " bytes, needs ", count);
    compute_.set_scratch(whole_.subspan(count));
  }
  ~ScratchClaim() { compute_.set_scratch(whole_); }
  ScratchClaim(const ScratchClaim&) = delete;
  ScratchClaim& operator=(const ScratchClaim&) = delete;

  std::byte* data() const { return whole_.data(); }

 private:
  Compute& compute_;
  std::span<std::byte> whole_;
};

}  // namespace cleave::ops
