#include "cleave/ops/attention_pool.h"

#include "ops/compare.h"
#include "ops/every_target.h"
#include "ops/tensor.h"
#include <gtest/gtest.h>

#include "cleave/ops/reference/attention_pool.h"

namespace cleave::ops {
namespace {

using namespace cleave::testing;

struct Pooled {
  explicit Pooled(const PoolShape& s, DType dtype)
      : shape(s),
        q(Tensor::random(DType::F32, {s.features()}, 1)),
        kv(Tensor::random(dtype, {s.sequences * s.sequence, 2 * s.features()}, 2)),
        dy(Tensor::random(dtype, {s.sequences, s.features()}, 3)) {}

  PoolShape shape;
  Tensor q;
  Tensor kv;
  Tensor dy;
};

struct PoolResults {
  PoolResults(const PoolShape& s, DType dtype)
      : y(dtype, {s.sequences, s.features()}),
        p(DType::F32, {s.sequences, s.heads, s.sequence}),
        dkv(dtype, {s.sequences * s.sequence, 2 * s.features()}),
        dq(DType::F32, {s.features()}) {}

  Tensor y, p, dkv, dq;
};

TEST(AttentionPool, AgreesWithTheReference) {
  for (const PoolShape& shape : {PoolShape{3, 17, 4, 8}, PoolShape{1, 1, 1, 5}}) {
    for (DType dtype : {DType::F32, DType::BF16}) {
      Pooled in(shape, dtype);
      PoolResults expected(shape, DType::F32);
      reference::attention_pool(shape, in.q.view(), in.kv.view(), expected.y.view(),
                                expected.p.view());
      reference::attention_pool_backward(
          shape, {in.q.view(), in.kv.view(), expected.p.view(), in.dy.view(), expected.dkv.view(),
                  expected.dq.view()});
      on_every_target([&](Compute& compute) {
        PoolResults out(shape, dtype);
        attention_pool(compute, shape, in.q.view(), in.kv.view(), out.y.view(), out.p.view());
        attention_pool_backward(
            compute, shape,
            {in.q.view(), in.kv.view(), out.p.view(), in.dy.view(), out.dkv.view(), out.dq.view()});
        // A score of up to 3 has rounding 2 · kRound, which its exponential multiplies; sums of 51
        // terms below 1 follow.
        const double error = 64 * 4 * kRound;
        expect_close(out.p, expected.p, error);
        expect_close(out.y, expected.y, error);
        expect_close(out.dkv, expected.dkv, error);
        expect_close(out.dq, expected.dq, error);
      });
    }
  }
}

// Linear in the values: <dy, y> = <dvalues, values>.
TEST(AttentionPool, IsAdjointToTheGradientOfItsValues) {
  const PoolShape shape{3, 17, 4, 8};
  Pooled in(shape, DType::F32);
  PoolResults out(shape, DType::F32);
  Compute compute(1);

  attention_pool(compute, shape, in.q.view(), in.kv.view(), out.y.view(), out.p.view());
  attention_pool_backward(
      compute, shape,
      {in.q.view(), in.kv.view(), out.p.view(), in.dy.view(), out.dkv.view(), out.dq.view()});

  double of_values = 0;
  for (std::int64_t row = 0; row < 3 * 17; ++row) {
    for (std::int64_t i = shape.features(); i < 2 * shape.features(); ++i)
      of_values +=
          double{out.dkv[row * 2 * shape.features() + i]} * in.kv[row * 2 * shape.features() + i];
  }
  // 96 values of y, each rounded once, and as many weights of each.
  EXPECT_NEAR(dot(in.dy, out.y), of_values, 96 * 18 * kRound);
  EXPECT_NE(of_values, 0);
}

}  // namespace
}  // namespace cleave::ops
