#include "cleave/ops/attention.h"

#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "ops/compare.h"
#include "ops/documents.h"
#include "ops/every_target.h"
#include "ops/tensor.h"
#include <gtest/gtest.h>

#include "cleave/ops/reference/attention.h"

namespace cleave::ops {
namespace {

using testing::Scratch;
using testing::Tensor;

/// q, k and v as slices of one matrix, the way a layer has them.
struct Qkv {
  Tensor rows, documents;
  View q, k, v;
  ConstView begins = {};

  Qkv(const AttentionShape& shape, DType dtype, std::uint32_t seed)
      : rows(Tensor::random(
            dtype, {shape.tokens(), shape.heads + 2 * shape.kv_heads, shape.head_dim}, seed)),
        documents(testing::document_begins(shape)),
        q(rows.view().slice(1, 0, shape.heads)),
        k(rows.view().slice(1, shape.heads, shape.kv_heads)),
        v(rows.view().slice(1, shape.heads + shape.kv_heads, shape.kv_heads)) {
    if (shape.documents) begins = documents.view();
  }
  Qkv(const Qkv&) = delete;
};

struct Result {
  Tensor out, lse;
  Result(const AttentionShape& shape, DType dtype)
      : out(dtype, {shape.tokens(), shape.heads, shape.head_dim}),
        lse(DType::F32, {shape.sequences, shape.heads, shape.sequence}) {}
};

const std::vector<AttentionShape> kAttentionShapes = {
    {1, 1, 1, 1, 8},
    {1, 5, 2, 2, 16},
    {2, 64, 3, 3, 64},
    {1, 65, 2, 1, 32},
    {3, 40, 4, 2, 24},
    {1, 130, 4, 1, 64},
    {1, 200, 4, 2, 80},
    // Every mask and score, in sequences of several blocks.
    {2, 70, 2, 1, 16, AttentionMask::Full},
    {1, 200, 4, 2, 24, AttentionMask::Window, 70},
    {1, 150, 2, 1, 32, AttentionMask::Window, 1},
    {1, 90, 2, 2, 16, AttentionMask::Causal, 0, 0.5f, 1.5f},
    {1, 140, 2, 1, 40, AttentionMask::Window, 33, 0.1f, 0.4f},
    // Several documents in a sequence.
    {2, 200, 4, 2, 24, AttentionMask::Causal, 0, 0, 0, true},
    {1, 300, 2, 1, 16, AttentionMask::Window, 40, 0.5f, 1.5f, true},
};

std::string name_of(const AttentionShape& shape, DType dtype) {
  return std::to_string(shape.sequences) + "x" + std::to_string(shape.sequence) + " heads " +
         std::to_string(shape.heads) + "/" + std::to_string(shape.kv_heads) + " of " +
         std::to_string(shape.head_dim) + ", mask " + std::to_string(int(shape.mask)) + " window " +
         std::to_string(shape.window) + (shape.documents ? " documents" : "") + " cap " +
         std::to_string(shape.cap) + " " + std::string(to_string(dtype));
}

/// fn(shape, dtype), which then calls test(compute) on every target.
template <class Fn>
void for_cases(const Fn& fn) {
  for (const AttentionShape& shape : kAttentionShapes) {
    for (DType dtype : {DType::F32, DType::BF16}) {
      SCOPED_TRACE(name_of(shape, dtype));
      fn(shape, dtype);
      if (::testing::Test::HasFatalFailure()) return;
    }
  }
}

template <class Test>
void on_every_target(const AttentionShape& shape, DType dtype, const Test& test) {
  testing::on_every_target([&](Compute& compute) {
    Scratch scratch(attention_scratch_bytes(compute, shape, dtype));
    compute.set_scratch(scratch.bytes());
    test(compute);
  });
}

void expect_near(Tensor& actual, Tensor& expected, double tolerance, const char* what) {
  for (std::int64_t i = 0; i < expected.view().elements(); ++i) {
    ASSERT_NEAR(actual[i], expected[i], tolerance) << what << " " << i;
  }
}

/// Rounding errors of one intermediate value of magnitude 1: a bf16 p or ds, or an f32 sum of
/// head_dim products and then of `sequence` ones.
double unit(const AttentionShape& shape, DType dtype) {
  const double sums = 0x1p-24 * static_cast<double>(shape.head_dim + shape.sequence + 8);
  return dtype == DType::BF16 ? sums + 0x1p-8 : sums;
}

/// The largest score: elements of q, k, v are at most 1. A cap makes none larger.
double largest_score(const AttentionShape& shape) {
  return static_cast<double>(shape.head_dim) * static_cast<double>(shape.score_scale());
}

// The relative error of e^s is the largest score times eps (twice: s and the maximum); out is a
// mean of v, at most 1.
TEST(Attention, AgreesWithTheReference) {
  for_cases([](const AttentionShape& shape, DType dtype) {
    const Qkv in(shape, dtype, 1);
    Result expected(shape, dtype);
    reference::attention(shape, in.q, in.k, in.v, expected.out.view(), expected.lse.view(),
                         in.begins);
    const double root = largest_score(shape);
    on_every_target(shape, dtype, [&](Compute& compute) {
      Result actual(shape, dtype);

      attention(compute, shape, in.q, in.k, in.v, actual.out.view(), actual.lse.view(), in.begins);

      expect_near(actual.out, expected.out,
                  (2 + 2 * root * (dtype == DType::F32)) * unit(shape, dtype), "out");
      expect_near(actual.lse, expected.lse, 4 * root * unit(shape, DType::F32), "lse");
    });
  });
}

// dv sums at most group · sequence terms p · dout whose p add up to the weight that a key gets; dp
// and delta are at most head_dim, so ds errs by scale · head_dim units per term, the largest score.
TEST(Attention, BackwardAgreesWithTheReference) {
  for_cases([](const AttentionShape& shape, DType dtype) {
    const Qkv in(shape, dtype, 1);
    Tensor dout = Tensor::random(dtype, {shape.tokens(), shape.heads, shape.head_dim}, 2);
    Result made(shape, dtype);
    reference::attention(shape, in.q, in.k, in.v, made.out.view(), made.lse.view(), in.begins);
    Qkv expected(shape, dtype, 4);
    AttentionGradient at{in.q,        in.k,       in.v,       made.out.view(), made.lse.view(),
                         dout.view(), expected.q, expected.k, expected.v,      in.begins};
    reference::attention_backward(shape, at);
    const double root = largest_score(shape);
    const double terms =
        static_cast<double>(shape.group()) * (2 + std::log(static_cast<double>(shape.sequence)));
    on_every_target(shape, dtype, [&](Compute& compute) {
      Qkv actual(shape, dtype, 3);
      at.dq = actual.q;
      at.dk = actual.k;
      at.dv = actual.v;

      attention_backward(compute, shape, at);

      expect_near(actual.rows, expected.rows, 4 * root * terms * unit(shape, dtype),
                  "dq, dk or dv");
    });
  });
}

TEST(Attention, GivesTheSameBitsOnEveryCallAndThreadCount) {
  const AttentionShape shape{2, 150, 4, 2, 64};
  for (DType dtype : {DType::F32, DType::BF16}) {
    const Qkv in(shape, dtype, 1);
    Tensor dout = Tensor::random(dtype, {shape.tokens(), shape.heads, shape.head_dim}, 2);
    std::vector<float> first;
    for (int threads : {1, 2, 2}) {
      Compute compute(threads);
      Scratch scratch(attention_scratch_bytes(compute, shape, dtype));
      compute.set_scratch(scratch.bytes());
      Result made(shape, dtype);
      Qkv gradient(shape, dtype, 3);

      attention(compute, shape, in.q, in.k, in.v, made.out.view(), made.lse.view(), in.begins);
      attention_backward(compute, shape,
                         {in.q, in.k, in.v, made.out.view(), made.lse.view(), dout.view(),
                          gradient.q, gradient.k, gradient.v, in.begins});

      std::vector<float> values;
      for (std::int64_t i = 0; i < gradient.rows.view().elements(); ++i) {
        values.push_back(gradient.rows[i]);
      }
      if (first.empty()) first = values;
      ASSERT_EQ(values, first);
    }
  }
}

// Attention is linear in v: <dout, out(v)> = <dv, v>, whatever mask and score. A query that saw a
// key in one pass and not in the other would show here, without an oracle.
TEST(Attention, GradientOfValuesIsTheAdjoint) {
  for (const AttentionShape& shape : kAttentionShapes) {
    SCOPED_TRACE(name_of(shape, DType::F32));
    const Qkv in(shape, DType::F32, 1);
    Tensor dout = Tensor::random(DType::F32, {shape.tokens(), shape.heads, shape.head_dim}, 2);
    Result made(shape, DType::F32);
    Qkv gradient(shape, DType::F32, 3);
    Compute compute(1);
    Scratch scratch(attention_scratch_bytes(compute, shape, DType::F32));
    compute.set_scratch(scratch.bytes());

    attention(compute, shape, in.q, in.k, in.v, made.out.view(), made.lse.view(), in.begins);
    attention_backward(compute, shape,
                       {in.q, in.k, in.v, made.out.view(), made.lse.view(), dout.view(), gradient.q,
                        gradient.k, gradient.v, in.begins});

    double dv_v = 0;
    for (std::int64_t token = 0; token < shape.tokens(); ++token) {
      for (std::int64_t head = 0; head < shape.kv_heads; ++head) {
        for (std::int64_t i = 0; i < shape.head_dim; ++i) {
          dv_v += double{reference::get(gradient.v, {token, head, i})} *
                  double{reference::get(in.v, {token, head, i})};
        }
      }
    }
    // Each of the terms below 1 errs by a unit; signs are random, so that is far more than needed.
    const double terms = static_cast<double>(shape.tokens() * shape.heads * shape.head_dim);
    EXPECT_NEAR(testing::dot(dout, made.out), dv_v, terms * unit(shape, DType::F32));
  }
}

// Skipping keys is not the same as multiplying them with 0: what is masked may be infinite.
TEST(Attention, DoesNotReadBlocksThatAreMaskedAsAWhole) {
  const AttentionShape shape{1, 200, 2, 1, 16, AttentionMask::Window, 10};
  Qkv in(shape, DType::F32, 1);
  Qkv poisoned(shape, DType::F32, 1);
  for (std::int64_t i = 0; i < shape.head_dim; ++i) {
    reference::set(poisoned.v, {5, 0, i}, std::numeric_limits<float>::infinity());
  }
  Compute compute(1);
  Scratch scratch(attention_scratch_bytes(compute, shape, DType::F32));
  compute.set_scratch(scratch.bytes());
  Result clean(shape, DType::F32), other(shape, DType::F32);

  attention(compute, shape, in.q, in.k, in.v, clean.out.view(), clean.lse.view(), in.begins);
  attention(compute, shape, poisoned.q, poisoned.k, poisoned.v, other.out.view(), other.lse.view());

  for (std::int64_t token = 128; token < shape.sequence; ++token) {
    const std::int64_t row = token * shape.heads * shape.head_dim;
    for (std::int64_t i = 0; i < shape.heads * shape.head_dim; ++i)
      ASSERT_EQ(other.out[row + i], clean.out[row + i]) << token;
  }
}

void expect_decoding_agrees(const AttentionShape& shape) {
  for (DType dtype : {DType::F32, DType::BF16}) {
    Compute compute(2);
    const Qkv in(shape, dtype, 1);
    Result expected(shape, dtype);
    reference::attention(shape, in.q, in.k, in.v, expected.out.view(), expected.lse.view(),
                         in.begins);
    Tensor out(dtype, {shape.heads, shape.head_dim});
    const View last = in.q.slice(0, shape.sequence - 1, 1);
    const ConstView q(last.bytes(), dtype, {shape.heads, shape.head_dim}, {last.stride(1), 1});
    Scratch scratch(2 * 5 * 64);
    compute.set_scratch(scratch.bytes());

    attention_decode(compute, shape, {q, in.k, in.v, out.view()});

    const std::int64_t row = (shape.sequence - 1) * shape.heads * shape.head_dim;
    for (std::int64_t i = 0; i < shape.heads * shape.head_dim; ++i) {
      ASSERT_NEAR(out[i], expected.out[row + i], 8 * unit(shape, dtype)) << i;
    }
  }
}

TEST(Attention, DecodesTheLastTokenAsTheWholeSequenceDoes) {
  expect_decoding_agrees({1, 77, 6, 2, 32});
  expect_decoding_agrees({1, 77, 6, 2, 32, AttentionMask::Window, 30});
  expect_decoding_agrees({1, 77, 6, 2, 32, AttentionMask::Causal, 0, 0.3f, 2});
}

}  // namespace
}  // namespace cleave::ops
