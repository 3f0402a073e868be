#include "cleave/ops/instruction_limit.h"

#include <cstdlib>

#include <gtest/gtest.h>

#include "cleave/base/check.h"
#include "cleave/ops/instruction_set.h"
#include "cleave/ops/onednn/amx_matmul.h"

namespace cleave::ops {
namespace {

TEST(InstructionLimit, NamesEveryLevel) {
  EXPECT_EQ(instruction_level("scalar"), InstructionLevel::Scalar);
  EXPECT_EQ(instruction_level("amx"), InstructionLevel::Amx);
  try {
    instruction_level("avx3");
    FAIL();
  } catch (const UserError& error) {
    EXPECT_STREQ(error.what(),
                 "CLEAVE_ISA is \"avx3\", which is no instruction set; choose one of scalar, sse4, "
                 "avx2, avx512, avx512_bf16, amx, or unset it");
  }
}

// ctest runs this program with CLEAVE_ISA set as well.
TEST(InstructionLimit, HoldsForOurKernelsAndForOneDnn) {
  const InstructionSet set = instruction_set();
  const char* asked = std::getenv("CLEAVE_ISA");

  EXPECT_EQ(set.limit, asked == nullptr ? "" : asked);
  EXPECT_EQ(set.fused, set.simd != "SSE4");
  if (instruction_limit() < InstructionLevel::Avx512) {
    EXPECT_NE(set.simd, "AVX3");
    EXPECT_FALSE(set.bf16_dot);
    EXPECT_FALSE(onednn::has_matmul(DType::BF16));
  }
  if (instruction_limit() < InstructionLevel::Avx2) {
    EXPECT_NE(set.simd, "AVX2");
    EXPECT_EQ(set.onednn, set.onednn.empty() ? "" : "sse41");
  }
  EXPECT_TRUE(!set.bf16_dot || instruction_limit() >= InstructionLevel::Avx512Bf16);
  EXPECT_TRUE(!set.amx_bf16 || instruction_limit() >= InstructionLevel::Amx);
}

TEST(InstructionSet, IsExactByDefaultWhereThatCostsNothing) {
  InstructionSet set;
  EXPECT_EQ(set.cheapest(DType::F32), Arithmetic::Exact);
  EXPECT_EQ(set.cheapest(DType::BF16), Arithmetic::Exact);
  set.bf16_dot = true;
  EXPECT_EQ(set.cheapest(DType::F32), Arithmetic::Exact);
  EXPECT_EQ(set.cheapest(DType::BF16), Arithmetic::Fastest);
  set.dot_is_faster = false;
  EXPECT_EQ(set.cheapest(DType::BF16), Arithmetic::Exact);
  set.amx_bf16 = true;
  EXPECT_EQ(set.cheapest(DType::BF16), Arithmetic::Fastest);
  set.fused = false;
  EXPECT_EQ(set.cheapest(DType::F32), Arithmetic::Fastest);
}

}  // namespace
}  // namespace cleave::ops
