// Products and attention on the first accelerator of this machine and on the processor: all tensors
// have the same bits afterwards, but for those of a library. Skipped where there is no accelerator.
#include <array>
#include <span>
#include <string>
#include <vector>

#include "ops/documents.h"
#include "ops/tensor.h"
#include "ops/twins.h"
#include <gtest/gtest.h>

#include "cleave/ops/attention.h"
#include "cleave/ops/matmul.h"
#include "cleave/ops/product_library.h"

namespace cleave::ops {
namespace {

using testing::Tensor;

class ProductsOnAccelerator : public testing::OnAccelerator {};
using Named = testing::Twins::Named;
using At = testing::Twins::At;

struct ProductCase {
  std::int64_t m, n, k;
};

void expect_same_products(testing::Twins& twins, DType dtype, std::span<const ProductCase> cases) {
  for (const auto& [m, n, k] : cases) {
    const Named a = twins.random(dtype, {m, k}), b = twins.random(dtype, {k, n});
    const Named bias = twins.random(DType::F32, {n}), own = twins.random(dtype, {n});
    const Named out = twins.random(dtype, {m, n}), sum = twins.random(DType::F32, {m, n});
    const std::string what =
        std::to_string(m) + " x " + std::to_string(n) + " x " + std::to_string(k);
    twins.expect_same(what.c_str(), [&](Compute& c, const At& at) {
      matmul(c, at(a), at(b), at(out));
      matmul(c, at(a), at(b), at(sum), {.bias = at(bias)});
      matmul(c, at(a), at(b), at(sum), {.write = Write::Accumulate, .bias = at(own)});
      matmul(c, at(a), at(b), at(out), {.write = Write::Accumulate, .bias = at(bias)});
      // Memory of other shapes, read the other way round.
      const ConstView at_b = at(b).reshaped({n, k}), at_a = at(a).reshaped({k, m});
      matmul(c, at_a.transposed(), at_b.transposed(), at(sum), {.write = Write::Accumulate});
      matmul(c, at_a.transposed(), at(b), at(out));
    });
  }
}

/// Small enough for an interpreter of kernels; one sum is cut in two all the same.
TEST_P(ProductsOnAccelerator, MultipliesWithTheBitsOfTheProcessor) {
  const ProductCase cases[] = {{1, 1, 1}, {5, 3, 2}, {17, 65, 33}, {2, 3, 1537}, {64, 1, 5}};
  expect_same_products(twins(), dtype(), cases);
  const Named a = twins().random(dtype(), {3, 10, 20}), b = twins().random(dtype(), {3, 20, 30});
  const Named out = twins().random(dtype(), {3, 10, 40});
  twins().expect_same("batched", [&](Compute& c, const At& at) {
    matmul(c, at(a), at(b), at(out).slice(2, 3, 30));
    matmul(c, at(a).slice(2, 4, 11), at(b).slice(1, 4, 11), at(out).slice(2, 3, 30),
           {.write = Write::Accumulate});
  });
}

TEST_P(ProductsOnAccelerator, MultipliesLargeMatricesWithTheBitsOfTheProcessor) {
  const ProductCase cases[] = {
      {16, 64, 16}, {70, 100, 1700}, {33, 47, 1536}, {3, 130, 1537}, {9, 20, 3100}};
  expect_same_products(twins(), dtype(), cases);
}

/// Whole numbers, so that a product has one result in every order of its sums.
TEST_P(ProductsOnAccelerator, MultipliesByALibraryWhereBitsNeedNotBeExact) {
  if (product_library().empty() || dtype() != DType::F32) GTEST_SKIP();
  const auto whole = [&](Shape shape) {
    Tensor values(DType::F32, shape);
    for (std::int64_t i = 0; i < values.view().elements(); ++i)
      values.view().as<float>()[i] = static_cast<float>(i * 7919 % 17 - 8);
    return twins().put(values.view());
  };
  const auto some = Arithmetic::Fastest;
  for (const auto& [m, n, k] : {std::array{1, 1, 1}, {5, 3, 2}, {17, 65, 33}, {70, 100, 170}}) {
    const Named a = whole({m, k}), b = whole({k, n}), bias = whole({n}), out = whole({m, n});
    const Named wide = whole({m, n + 7});
    twins().expect_same(
        "a library",
        [&](Compute& c, const At& at) {
          matmul(c, at(a), at(b), at(out), {.bias = at(bias)});
          matmul(c, at(a), at(b), at(out), {.write = Write::Accumulate});
          const ConstView at_b = at(b).reshaped({n, k}), at_a = at(a).reshaped({k, m});
          matmul(c, at_a.transposed(), at_b.transposed(), at(wide).slice(1, 3, n));
          matmul(c, at_a.transposed(), at(b), at(out),
                 {.write = Write::Accumulate, .bias = at(bias)});
        },
        some);
  }
  const Named a = whole({3, 10, 20}), b = whole({3, 20, 30}), out = whole({3, 10, 40});
  twins().expect_same(
      "a library's batch",
      [&](Compute& c, const At& at) {
        matmul(c, at(a), at(b), at(out).slice(2, 3, 30));
        matmul(c, at(a).slice(2, 4, 11), at(b).slice(1, 4, 11), at(out).slice(2, 3, 30),
               {.write = Write::Accumulate});
      },
      some);
}

/// Sums of many numbers show the order in which they were made: the library was asked.
TEST_P(ProductsOnAccelerator, HasBitsOfItsOwnFromALibrary) {
  if (product_library().empty() || dtype() != DType::F32) GTEST_SKIP();
  const Named a = twins().random(DType::F32, {9, 3100}), b = twins().random(DType::F32, {3100, 20});
  const Named out = twins().random(DType::F32, {9, 20});
  const auto product = [&](Arithmetic arithmetic) {
    return twins().on_device(arithmetic, out,
                             [&](Compute& c, const At& at) { matmul(c, at(a), at(b), at(out)); });
  };
  const auto exact = product(Arithmetic::Exact), fast = product(Arithmetic::Fastest);
  EXPECT_NE(fast, exact);
  EXPECT_EQ(fast, product(Arithmetic::Fastest));
}

/// Those, and the first of each sort of mask with documents that are kept apart.
std::vector<AttentionShape> with_documents(std::vector<AttentionShape> shapes) {
  for (AttentionShape shape : {shapes[1], shapes.back()}) {
    shape.documents = true;
    shapes.push_back(shape);
  }
  return shapes;
}

/// `whole` with all keys and with a window of `window`, plain and capped.
std::vector<AttentionShape> masked(const AttentionShape& whole, std::int64_t window) {
  std::vector<AttentionShape> shapes;
  for (const AttentionMask mask : {AttentionMask::Full, AttentionMask::Window}) {
    AttentionShape shape = whole;
    shape.mask = mask;
    shape.window = mask == AttentionMask::Window ? window : 0;
    shapes.push_back(shape);
    shape.cap = 0.5f;
    shape.scale = 0.3f;
    shapes.push_back(shape);
  }
  return shapes;
}

void expect_same_attention(testing::Twins& twins, DType dtype, const AttentionShape& shape) {
  const Named begins = twins.put(testing::document_begins(shape).view());
  const std::int64_t rows = shape.heads + 2 * shape.kv_heads;
  const Named qkv = twins.random(dtype, {shape.tokens(), rows, shape.head_dim});
  const Named dqkv = twins.random(dtype, {shape.tokens(), rows, shape.head_dim});
  const Named out = twins.random(dtype, {shape.tokens(), shape.heads, shape.head_dim});
  const Named dout = twins.random(dtype, {shape.tokens(), shape.heads, shape.head_dim});
  const Named lse = twins.random(DType::F32, {shape.sequences, shape.heads, shape.sequence});
  twins.expect_same("attention", [&](Compute& c, const At& at) {
    const auto part = [&](const Named& all, std::int64_t first, std::int64_t count) {
      return at(all).slice(1, first, count);
    };
    const View q = part(qkv, 0, shape.heads), k = part(qkv, shape.heads, shape.kv_heads);
    const View v = part(qkv, shape.heads + shape.kv_heads, shape.kv_heads);
    const ConstView documents = shape.documents ? ConstView(at(begins)) : ConstView();
    attention(c, shape, q, k, v, at(out), at(lse), documents);
    attention_backward(c, shape,
                       {q, k, v, at(out), at(lse), at(dout), part(dqkv, 0, shape.heads),
                        part(dqkv, shape.heads, shape.kv_heads),
                        part(dqkv, shape.heads + shape.kv_heads, shape.kv_heads), documents});
  });
}

/// Small enough for an interpreter of kernels, and longer than a block of keys all the same.
TEST_P(ProductsOnAccelerator, AttendsWithTheBitsOfTheProcessor) {
  std::vector<AttentionShape> shapes = {{1, 1, 1, 1, 2}, {2, 7, 4, 2, 3}, {1, 66, 1, 1, 3}};
  for (const AttentionShape& shape : masked({1, 67, 1, 1, 2}, 5)) shapes.push_back(shape);
  for (const AttentionShape& shape : with_documents(shapes))
    expect_same_attention(twins(), dtype(), shape);
}

TEST_P(ProductsOnAccelerator, AttendsInLargeShapesWithTheBitsOfTheProcessor) {
  std::vector<AttentionShape> shapes = {{1, 1, 1, 1, 2},   {2, 17, 4, 2, 8},   {1, 64, 2, 2, 16},
                                        {2, 65, 2, 1, 33}, {1, 150, 4, 2, 40}, {1, 200, 1, 1, 80}};
  for (const AttentionShape& shape : masked({1, 150, 2, 1, 24}, 70)) shapes.push_back(shape);
  for (const AttentionShape& shape : with_documents(shapes))
    expect_same_attention(twins(), dtype(), shape);
}

INSTANTIATE_TEST_SUITE_P(EveryFormat, ProductsOnAccelerator,
                         ::testing::Values(DType::F32, DType::BF16),
                         [](const auto& info) { return std::string(to_string(info.param)); });

}  // namespace
}  // namespace cleave::ops
