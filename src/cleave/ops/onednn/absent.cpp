// In place of the other files of this folder where cleave is built without oneDNN.

#include "cleave/base/check.h"
#include "cleave/ops/gemm_limit.h"
#include "cleave/ops/onednn/amx_matmul.h"
#include "cleave/ops/onednn/limit.h"

namespace cleave::ops {
namespace onednn {

std::string instructions() {
  return {};
}

std::unique_ptr<Compute::Kernels> make_kernels(int /*threads*/) {
  return nullptr;
}

bool has_amx(DType /*dtype*/) {
  return false;
}

bool has_matmul(DType /*dtype*/) {
  return false;
}

void limit(InstructionLevel /*level*/) {}

std::int64_t amx_matmul_scratch_bytes(Compute& /*compute*/, const MatmulSpec& spec) {
  CLEAVE_CHECK(false, "a product of ", to_string(spec.in), " without oneDNN");
  return 0;
}

void amx_matmul(Compute& /*compute*/, const MatmulSpec& spec, ConstView /*a*/, ConstView /*b*/,
                View /*out*/, ConstView /*bias*/) {
  CLEAVE_CHECK(false, "a product of ", to_string(spec.in), " without oneDNN");
}

}  // namespace onednn

class GemmLimit::Products {};

GemmLimit::GemmLimit(const Compute& /*compute*/, std::span<const CountedMatmul> /*products*/) {
  throw UserError(
      "this cleave was built without oneDNN, whose products are the limit that a step is measured "
      "against; install libdnnl-dev, and build it anew with CLEAVE_ONEDNN=ON");
}

GemmLimit::~GemmLimit() = default;

double GemmLimit::run() {
  return 0;
}

}  // namespace cleave::ops
