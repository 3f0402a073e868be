#include "cleave/ops/gemm_limit.h"

#include <vector>

#include <gtest/gtest.h>

#include "cleave/base/check.h"
#include "cleave/ops/onednn/amx_matmul.h"

namespace cleave::ops {
namespace {

TEST(GemmLimit, RunsEveryKindOfProductOrIsRefusedWithoutOneDnn) {
  Compute compute(2);
  std::vector<CountedMatmul> products;
  for (DType dtype : {DType::F32, DType::BF16}) {
    for (std::int64_t batch : {1, 3}) {
      products.push_back({{.m = 33, .n = 47, .k = 20, .batch = batch, .in = dtype}, 2});
    }
  }
  if (onednn::instructions().empty()) {
    EXPECT_THROW(GemmLimit(compute, products), UserError);
    return;
  }
  GemmLimit limit(compute, products);

  EXPECT_GT(limit.run(), 0.0);
  EXPECT_GT(limit.run(), 0.0);
}

}  // namespace
}  // namespace cleave::ops
