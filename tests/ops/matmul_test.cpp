#include "cleave/ops/matmul.h"

#include <cmath>
#include <string>
#include <vector>

#include "ops/tensor.h"
#include <gtest/gtest.h>

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

void expect_agrees_with_the_reference(Compute& compute, const Case& c) {
  SCOPED_TRACE(name_of(c) + " threads " + std::to_string(compute.threads()));
  Operand a(c.in, {c.batch, c.m, c.k}, c.a, c.pad, 1);
  Operand b(c.in, {c.batch, c.k, c.n}, c.b, c.pad, 2);
  Operand out(c.out, {c.batch, c.m, c.n}, Transpose::No, c.pad, 3);
  Operand expected = out;
  Tensor bias = Tensor::random(c.in, {c.n}, 4);
  MatmulOptions options{.write = c.write};
  if (c.bias == Bias::Add) options.bias = bias.view();

  run(compute, a, b, out, options);
  reference::matmul(a.view(), b.view(), expected.view(), options);

  // The padding is compared too: nothing may be written there.
  for (std::int64_t i = 0; i < out.tensor().view().elements(); ++i) {
    ASSERT_NEAR(out.tensor()[i], expected.tensor()[i], tolerance(c, expected.tensor()[i])) << i;
  }
}

const std::vector<std::array<std::int64_t, 3>> kShapes = {
    {1, 1, 1},    {1, 17, 5},    {3, 1, 7},      {5, 3, 1},      {16, 16, 16},  {17, 33, 65},
    {64, 64, 64}, {63, 127, 31}, {128, 100, 64}, {100, 257, 96}, {130, 64, 200}};

TEST(Matmul, AgreesWithTheReferenceInEveryForm) {
  for (int threads : {1, 2}) {
    Compute compute(threads);
    for (const auto& [m, n, k] : kShapes) {
      for (auto [in, out] : {std::pair{DType::F32, DType::F32},
                             {DType::BF16, DType::BF16},
                             {DType::BF16, DType::F32}}) {
        for (Transpose a : {Transpose::No, Transpose::Yes}) {
          for (Transpose b : {Transpose::No, Transpose::Yes}) {
            for (Write write : {Write::Overwrite, Write::Accumulate}) {
              const Bias bias = (m + n) % 2 == 0 ? Bias::Add : Bias::None;
              expect_agrees_with_the_reference(
                  compute, {m, n, k, in, out, a, b, write, bias, 1, k % 3 == 0 ? 5 : 0});
            }
          }
        }
      }
    }
  }
}

TEST(Matmul, AgreesWithTheReferenceOnBatches) {
  for (int threads : {1, 2}) {
    Compute compute(threads);
    for (DType in : {DType::F32, DType::BF16}) {
      for (Transpose b : {Transpose::No, Transpose::Yes}) {
        for (std::int64_t pad : {0, 3}) {
          expect_agrees_with_the_reference(
              compute,
              {.m = 20, .n = 33, .k = 17, .in = in, .out = in, .b = b, .batch = 3, .pad = pad});
        }
      }
    }
  }
}

TEST(Matmul, GivesTheSameBitsOnEveryCall) {
  for (int threads : {1, 2}) {
    Compute compute(threads);
    for (DType in : {DType::F32, DType::BF16}) {
      Operand a(in, {1, 70, 300}, Transpose::No, 0, 1);
      Operand b(in, {1, 300, 90}, Transpose::Yes, 0, 2);
      Operand first(DType::F32, {1, 70, 90}, Transpose::No, 0, 3);
      Operand second = first;

      run(compute, a, b, first, {});
      run(compute, a, b, second, {});

      for (std::int64_t i = 0; i < 70 * 90; ++i) ASSERT_EQ(first.tensor()[i], second.tensor()[i]);
    }
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
