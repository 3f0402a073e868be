#include "cleave/ops/matmul.h"

#include <cmath>
#include <string>
#include <vector>

#include "ops/every_target.h"
#include "ops/tensor.h"
#include <gtest/gtest.h>

#include "cleave/ops/onednn/amx_matmul.h"
#include "cleave/ops/reference/matmul.h"

namespace cleave::ops {
namespace {

using testing::Scratch;
using testing::Tensor;

struct Case {
  std::int64_t m, n, k;
  DType in = DType::F32;
  DType out = DType::F32;
  Transpose a = Transpose::No;
  Transpose b = Transpose::No;
  Write write = Write::Overwrite;
  Bias bias = Bias::None;
  std::int64_t batch = 1;
  std::int64_t pad = 0;  // between rows
};

std::string name_of(const Case& c) {
  return std::to_string(c.batch) + "x" + std::to_string(c.m) + "x" + std::to_string(c.n) + "x" +
         std::to_string(c.k) + " " + std::string(to_string(c.in)) + " to " +
         std::string(to_string(c.out)) + (c.a == Transpose::Yes ? " aT" : "") +
         (c.b == Transpose::Yes ? " bT" : "") + (c.write == Write::Accumulate ? " +=" : "") +
         (c.bias == Bias::Add ? " bias" : "") + (c.pad > 0 ? " padded" : "");
}

/// A matrix (batch 1) or a batch of them, with `pad` unused elements at the end of stored rows.
class Operand {
 public:
  Operand(DType dtype, Shape shape, Transpose transpose, std::int64_t pad, std::uint32_t seed)
      : transpose_(transpose),
        shape_(transpose == Transpose::No ? shape : Shape{shape[0], shape[2], shape[1]}),
        tensor_(Tensor::random(dtype, {shape_[0], shape_[1], shape_[2] + pad}, seed)) {}

  View view() {
    const View stored = tensor_.view().slice(2, 0, shape_[2]);
    const View batch = transpose_ == Transpose::Yes ? stored.transposed() : stored;
    if (shape_[0] > 1) return batch;
    return {batch.bytes(),
            batch.dtype(),
            {batch.size(1), batch.size(2)},
            {batch.stride(1), batch.stride(2)}};
  }
  Tensor& tensor() { return tensor_; }

 private:
  Transpose transpose_;
  Shape shape_;
  Tensor tensor_;
};

void run(Compute& compute, Operand& a, Operand& b, Operand& out, const MatmulOptions& options) {
  Scratch scratch(matmul_scratch_bytes(compute, describe(a.view(), b.view(), out.view(), options)));
  compute.set_scratch(scratch.bytes());
  matmul(compute, a.view(), b.view(), out.view(), options);
}

// Elements are at most 1, so a sum of k products (and bias and previous value) is at most k + 2 and
// f32 rounding errs by at most (k + 2) · eps per unit of it; one rounding to bf16 errs by 2^-8 of
// the result, and by as much again where the two f32 sums fall on different sides of a tie.
double tolerance(const Case& c, double value) {
  const double sum = static_cast<double>(c.k + 2) * static_cast<double>(c.k + 2) * 0x1p-24;
  return c.out == DType::BF16 ? sum + std::abs(value) * 0x1p-7 : sum;
}

/// The arguments of one call and what should come out.
struct Example {
  Operand a, b, out, expected;
  Tensor bias;
  MatmulOptions options;

  explicit Example(const Case& c)
      : a(c.in, {c.batch, c.m, c.k}, c.a, c.pad, 1),
        b(c.in, {c.batch, c.k, c.n}, c.b, c.pad, 2),
        out(c.out, {c.batch, c.m, c.n}, Transpose::No, c.pad, 3),
        expected(out),
        bias(Tensor::random(c.in, {c.n}, 4)),
        options{.write = c.write} {
    if (c.bias == Bias::Add) options.bias = bias.view();
    reference::matmul(a.view(), b.view(), expected.view(), options);
  }
  Example(const Example&) = delete;

  // The padding is compared too: nothing may be written there.
  void expect_agrees(const Case& c, Operand& actual) {
    for (std::int64_t i = 0; i < actual.tensor().view().elements(); ++i) {
      const float value = expected.tensor()[i];
      ASSERT_NEAR(actual.tensor()[i], value, tolerance(c, value)) << i;
    }
  }
};

void expect_agrees_with_the_reference(const Case& c) {
  SCOPED_TRACE(name_of(c));
  Example example(c);
  testing::on_every_target([&](Compute& compute) {
    Operand out = example.out;
    run(compute, example.a, example.b, out, example.options);
    example.expect_agrees(c, out);
  });
}

template <class Fn>
void for_every_form(std::array<std::int64_t, 3> shape, const Fn& fn) {
  const auto [m, n, k] = shape;
  const Bias bias = (m + n) % 2 == 0 ? Bias::Add : Bias::None;
  const std::int64_t pad = k % 3 == 0 ? 5 : 0;
  for (auto [in, out] :
       {std::pair{DType::F32, DType::F32}, {DType::BF16, DType::BF16}, {DType::BF16, DType::F32}}) {
    for (Transpose a : {Transpose::No, Transpose::Yes}) {
      for (Transpose b : {Transpose::No, Transpose::Yes}) {
        for (Write write : {Write::Overwrite, Write::Accumulate}) {
          fn(Case{m, n, k, in, out, a, b, write, bias, 1, pad});
        }
      }
    }
  }
}

const std::vector<std::array<std::int64_t, 3>> kProductShapes = {
    {1, 1, 1},    {1, 17, 5},   {3, 1, 7},     {5, 3, 1},     {16, 16, 16},
    {17, 33, 65}, {64, 64, 64}, {63, 127, 31}, {28, 100, 64}, {30, 257, 96}};

TEST(Matmul, AgreesWithTheReferenceInEveryForm) {
  for (const auto& shape : kProductShapes) for_every_form(shape, expect_agrees_with_the_reference);
}

// More than one block of k, of rows and of columns.
TEST(Matmul, AgreesWithTheReferenceAcrossBlocks) {
  for (DType out : {DType::F32, DType::BF16}) {
    const Case deep{.m = 5,
                    .n = 21,
                    .k = 6157,
                    .in = out,
                    .out = out,
                    .write = Write::Accumulate,
                    .bias = Bias::Add};
    expect_agrees_with_the_reference(deep);
    expect_agrees_with_the_reference({.m = 101, .n = 10, .k = 1531, .in = out, .out = out});
    expect_agrees_with_the_reference({.m = 2, .n = 1501, .k = 1301, .in = out, .out = out});
  }
}

TEST(Matmul, AgreesWithTheReferenceOnBatches) {
  for (DType in : {DType::F32, DType::BF16}) {
    for (Transpose b : {Transpose::No, Transpose::Yes}) {
      for (std::int64_t pad : {0, 3}) {
        expect_agrees_with_the_reference(
            {.m = 20, .n = 33, .k = 17, .in = in, .out = in, .b = b, .batch = 3, .pad = pad});
      }
    }
  }
}

/// One product by oneDNN itself, whatever ops::matmul would choose.
void run_onednn(Compute& compute, Example& example) {
  Operand& out = example.out;
  const MatmulSpec spec = describe(example.a.view(), example.b.view(), out.view(), example.options);
  Scratch scratch(onednn::amx_matmul_scratch_bytes(compute, spec));
  compute.set_scratch(scratch.bytes());
  onednn::amx_matmul(compute, spec, example.a.view(), example.b.view(), out.view(),
                     example.options.bias);
}

// Where there is AMX, oneDNN does what the tests above compare; elsewhere only this test runs it.
TEST(Matmul, OfOneDnnAgreesWithTheReferenceOrIsRefused) {
  ASSERT_EQ(onednn::has_matmul(DType::F32), !onednn::instructions().empty());
  for (int threads : {1, 2}) {
    Compute compute(threads);
    for_every_form({17, 33, 66}, [&](const Case& c) {
      SCOPED_TRACE(name_of(c));
      Example example(c);
      if (!onednn::has_matmul(c.in)) {
        EXPECT_THROW(run_onednn(compute, example), InternalError);
        return;
      }

      run_onednn(compute, example);

      example.expect_agrees(c, example.out);
    });
  }
}

std::vector<float> values_of(View matrix) {
  std::vector<float> values;
  for (std::int64_t row = 0; row < matrix.size(0); ++row) {
    for (std::int64_t column = 0; column < matrix.size(1); ++column) {
      values.push_back(reference::get(matrix, {row, column}));
    }
  }
  return values;
}

TEST(Matmul, GivesTheSameBitsOnEveryCallAndThreadCount) {
  for (DType in : {DType::F32, DType::BF16}) {
    if (onednn::has_amx(in)) continue;
    Operand a(in, {1, 70, 3300}, Transpose::No, 0, 1);
    Operand b(in, {1, 3300, 190}, Transpose::Yes, 0, 2);
    std::vector<float> first;
    for (int threads : {1, 1, 2, 3}) {
      Compute compute(threads);
      Operand out(in, {1, 70, 190}, Transpose::No, 0, 3);

      run(compute, a, b, out, {});

      if (first.empty()) first = values_of(out.view());
      ASSERT_EQ(values_of(out.view()), first) << threads << " threads";
    }
  }
}

// A tensor-parallel or a folded shard is a part of a larger product.
TEST(Matmul, GivesAPartOfAMatrixTheBitsItHasInTheWhole) {
  for (DType in : {DType::F32, DType::BF16}) {
    if (onednn::has_amx(in)) continue;
    Compute compute(2);
    Operand a(in, {1, 70, 300}, Transpose::No, 0, 1);
    Operand b(in, {1, 300, 190}, Transpose::No, 0, 2);
    Operand whole(in, {1, 70, 190}, Transpose::No, 0, 3);
    Tensor part(in, {31, 77});
    Scratch scratch(matmul_scratch_bytes(compute, describe(a.view(), b.view(), whole.view())));
    compute.set_scratch(scratch.bytes());

    matmul(compute, a.view(), b.view(), whole.view());
    matmul(compute, a.view().slice(0, 13, 31), b.view().slice(1, 50, 77), part.view());

    EXPECT_EQ(values_of(part.view()), values_of(whole.view().slice(0, 13, 31).slice(1, 50, 77)));
  }
}

TEST(Matmul, RefusesShapesThatDisagree) {
  Compute compute(1);
  Tensor a(DType::F32, {2, 3});
  Tensor b(DType::F32, {4, 5});
  Tensor out(DType::F32, {2, 5});

  EXPECT_THROW(matmul(compute, a.view(), b.view(), out.view()), InternalError);
}

}  // namespace
}  // namespace cleave::ops
