// Kernels against their exact twins: to the bit, on every instruction set that promises it.
#include "cleave/ops/reference/exact.h"

#include "ops/compare.h"
#include "ops/documents.h"
#include "ops/every_target.h"
#include "ops/tensor.h"
#include <gtest/gtest.h>

#include "cleave/ops/elementwise.h"
#include "cleave/spec/kernel_scratch.h"

namespace cleave::ops {
namespace {

using namespace cleave::testing;

constexpr DType kDTypes[] = {DType::F32, DType::BF16};

TEST(Exact, SumHasSixtyFourSlots) {
  // 2^24 + 1 is not a float: a one that shares its slot is lost.
  std::vector<float> values(128);
  values[3] = 0x1p24f;
  values[3 + 64] = 1;
  const auto sum = [&] {
    return reference::exact::sum_in_slots(128, [&](std::int64_t i) { return values[i]; });
  };
  EXPECT_EQ(sum(), 0x1p24f);
  values[3 + 64] = 0;
  values[3 + 16] = 1;  // next row, same column: the first to be added to it
  values[3 + 32] = 1;
  values[3 + 48] = 1;  // these two are added to each other first
  EXPECT_EQ(sum(), 0x1p24f + 2);
}

TEST(Exact, ExpAndLogAreCloseToTheTruth) {
  for (int i = 0; i < 20000; ++i) {
    const float x = -87.0f + static_cast<float>(i) * 0.00875f;
    const double expected = std::exp(static_cast<double>(x));
    ASSERT_NEAR(reference::exact::exp(x), expected, 2 * 0x1p-23 * expected) << x;
    const float y = reference::exact::exp(x);
    const double log = std::log(static_cast<double>(y));
    ASSERT_NEAR(reference::exact::log(y), log, 2 * 0x1p-23 * std::abs(log)) << y;
  }
  EXPECT_EQ(reference::exact::log(1), 0);
}

TEST(Exact, MatmulIsAChainAlongKCutIntoEqualBlocks) {
  for (DType in : kDTypes) {
    for (DType out_dtype : kDTypes) {
      if (in == DType::F32 && out_dtype == DType::BF16) continue;
      for (std::int64_t k : {1, 67, 1536, 1537, 3300}) {
        Tensor a = Tensor::random(in, {5, k}, 1);
        Tensor b = Tensor::random(in, {k, 27}, 2);
        Tensor bias = Tensor::random(in, {27}, 3);
        for (Write write : {Write::Overwrite, Write::Accumulate}) {
          SCOPED_TRACE(::testing::Message()
                       << to_string(in) << " to " << to_string(out_dtype) << ", k " << k);
          Tensor expected = Tensor::random(out_dtype, {5, 27}, 4);
          const Tensor before = expected;
          const MatmulOptions options{.write = write, .bias = bias.view()};
          reference::exact::matmul(a.view(), b.view(), expected.view(), options);
          on_exact_targets([&](Compute& compute) {
            Tensor out = before;
            const MatmulSpec spec = describe(a.view(), b.view(), out.view(), options);
            Scratch scratch(matmul_scratch_bytes(compute, spec));
            compute.set_scratch(scratch.bytes());

            matmul(compute, a.view(), b.view(), out.view(), options);

            expect_same_bits(out.view(), expected.view());
          });
        }
      }
    }
  }
}

struct Norm {
  Norm(DType dtype, std::int64_t tokens, std::int64_t hidden)
      : x(Tensor::random(dtype, {tokens, hidden}, 1)),
        weight(Tensor::random(dtype, {hidden}, 2)),
        bias(Tensor::random(dtype, {hidden}, 3)),
        dy(Tensor::random(dtype, {tokens, hidden}, 4)),
        add(Tensor::random(dtype, {tokens, hidden}, 5)),
        y(dtype, {tokens, hidden}),
        dx(dtype, {tokens, hidden}),
        mean(DType::F32, {tokens}),
        rstd(DType::F32, {tokens}),
        dweight(DType::F32, {hidden}),
        dbias(DType::F32, {hidden}) {}

  LayernormArgs forward() {
    return {.x = x.view(),
            .weight = weight.view(),
            .bias = bias.view(),
            .y = y.view(),
            .mean = mean.view(),
            .rstd = rstd.view()};
  }
  LayernormBackwardArgs backward() {
    return {.dy = dy.view(),
            .x = x.view(),
            .weight = weight.view(),
            .mean = mean.view(),
            .rstd = rstd.view(),
            .add = add.view(),
            .dx = dx.view(),
            .dweight = dweight.view(),
            .dbias = dbias.view()};
  }

  Tensor x, weight, bias, dy, add, y, dx, mean, rstd, dweight, dbias;
};

TEST(Exact, LayernormAndItsGradientHaveTheBitsOfTheirTwins) {
  constexpr std::int64_t kTokens = 67;  // three slices, the last short
  for (DType dtype : kDTypes) {
    for (std::int64_t hidden : {1, 7, 64, 65, 200}) {
      Norm expected(dtype, kTokens, hidden);
      reference::exact::layernorm(expected.forward());
      reference::exact::layernorm_backward(expected.backward());
      on_exact_targets([&](Compute& compute) {
        Norm actual(dtype, kTokens, hidden);
        Scratch scratch(layernorm_backward_scratch_bytes(kTokens, hidden));
        compute.set_scratch(scratch.bytes());

        layernorm(compute, actual.forward());
        layernorm_backward(compute, actual.backward());

        expect_same_bits(actual.y.view(), expected.y.view());
        expect_same_bits(actual.mean.view(), expected.mean.view());
        expect_same_bits(actual.rstd.view(), expected.rstd.view());
        expect_same_bits(actual.dx.view(), expected.dx.view());
        expect_same_bits(actual.dweight.view(), expected.dweight.view());
        expect_same_bits(actual.dbias.view(), expected.dbias.view());
      });
    }
  }
}

TEST(Exact, CrossEntropyHasTheBitsOfItsTwin) {
  for (DType dtype : kDTypes) {
    for (std::int64_t vocab : {1, 63, 64, 1000}) {
      Tensor logits = Tensor::random(dtype, {5, vocab}, 1);
      Compute one(1);
      scale(one, logits.view(), 20, logits.view());
      Tensor targets(DType::I32, {5});
      for (std::int32_t t = 0; t < 5; ++t) {
        targets.view().as<std::int32_t>()[t] = t == 1 ? -1 : static_cast<std::int32_t>(t % vocab);
      }
      Tensor losses(DType::F32, {5}), lse(DType::F32, {5});
      reference::exact::cross_entropy(logits.view(), targets.view(), losses.view(), lse.view());
      on_exact_targets([&](Compute& compute) {
        Tensor actual_losses(DType::F32, {5}), actual_lse(DType::F32, {5});

        cross_entropy(compute, logits.view(), targets.view(), actual_losses.view(),
                      actual_lse.view());

        expect_same_bits(actual_losses.view(), losses.view());
        expect_same_bits(actual_lse.view(), lse.view());
      });
    }
  }
}

struct AttentionTensors {
  AttentionTensors(const AttentionShape& shape, DType dtype)
      : q(Tensor::random(dtype, {shape.tokens(), shape.heads, shape.head_dim}, 1)),
        k(Tensor::random(dtype, {shape.tokens(), shape.kv_heads, shape.head_dim}, 2)),
        v(Tensor::random(dtype, {shape.tokens(), shape.kv_heads, shape.head_dim}, 3)),
        dout(Tensor::random(dtype, {shape.tokens(), shape.heads, shape.head_dim}, 4)),
        out(dtype, {shape.tokens(), shape.heads, shape.head_dim}),
        dq(out),
        dk(dtype, {shape.tokens(), shape.kv_heads, shape.head_dim}),
        dv(dk),
        lse(DType::F32, {shape.sequences, shape.heads, shape.sequence}),
        documents(testing::document_begins(shape)) {
    if (shape.documents) begins = documents.view();
  }

  AttentionGradient gradient() {
    return {q.view(),    k.view(),  v.view(),  out.view(), lse.view(),
            dout.view(), dq.view(), dk.view(), dv.view(),  begins};
  }

  Tensor q, k, v, dout, out, dq, dk, dv, lse, documents;
  ConstView begins = {};
};

const std::vector<AttentionShape> kAttentions = {
    {2, 150, 4, 2, 24},
    {1, 130, 2, 1, 24, AttentionMask::Full},
    {1, 200, 2, 2, 40, AttentionMask::Window, 50},
    {1, 90, 2, 1, 16, AttentionMask::Causal, 0, 0.4f, 1.2f},
    {1, 140, 2, 1, 16, AttentionMask::Window, 7, 0.4f, 0.5f},
    {1, 230, 2, 1, 16, AttentionMask::Causal, 0, 0, 0, true},
    {2, 100, 2, 2, 16, AttentionMask::Window, 30, 0.4f, 0.5f, true},
};

// Its sums begin at key 0 of the sequence, so that whoever leaves out keys that are masked in whole
// blocks of 64 must come to the same bits.
TEST(Exact, AttentionAndItsGradientHaveTheBitsOfTheirTwins) {
  for (const AttentionShape& shape : kAttentions) {
    for (DType dtype : kDTypes) {
      SCOPED_TRACE(::testing::Message() << "mask " << int(shape.mask) << ", cap " << shape.cap
                                        << ", " << to_string(dtype));
      AttentionTensors expected(shape, dtype);
      reference::exact::attention(shape, expected.q.view(), expected.k.view(), expected.v.view(),
                                  expected.out.view(), expected.lse.view(), expected.begins);
      reference::exact::attention_backward(shape, expected.gradient());
      on_exact_targets([&](Compute& compute) {
        AttentionTensors actual(shape, dtype);
        Scratch scratch(attention_scratch_bytes(compute, shape, dtype));
        compute.set_scratch(scratch.bytes());

        attention(compute, shape, actual.q.view(), actual.k.view(), actual.v.view(),
                  actual.out.view(), actual.lse.view(), actual.begins);
        attention_backward(compute, shape, actual.gradient());

        expect_same_bits(actual.lse.view(), expected.lse.view());
        expect_same_bits(actual.out.view(), expected.out.view());
        expect_same_bits(actual.dq.view(), expected.dq.view());
        expect_same_bits(actual.dk.view(), expected.dk.view());
        expect_same_bits(actual.dv.view(), expected.dv.view());
      });
    }
  }
}

TEST(Exact, TanhIsCloseToTheTruth) {
  for (int i = -20000; i <= 20000; ++i) {
    const float x = static_cast<float>(i) * 0.0005f;
    const double expected = std::tanh(static_cast<double>(x));
    ASSERT_NEAR(reference::exact::tanh(x), expected, 2 * 0x1p-23 * std::abs(expected)) << x;
  }
  EXPECT_EQ(reference::exact::tanh(100), 1);
}

}  // namespace
}  // namespace cleave::ops
