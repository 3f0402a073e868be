#include "cleave/comm/tree_sum.h"

#include <vector>

#include "comm/adders.h"
#include "support/random.h"
#include <gtest/gtest.h>

#include "cleave/base/check.h"
#include "cleave/comm/tensor_adder.h"

namespace cleave::comm {
namespace {

using Bytes = std::vector<std::byte>;

// Writes down who is added to whom.
class Scribe final : public Adder {
 public:
  std::size_t element_bytes() const override { return 1; }
  void add(std::span<const std::byte> a, std::span<const std::byte> b,
           std::span<std::byte> out) const override {
    text += static_cast<char>(a[0]);
    text += static_cast<char>(b[0]);
    text += ' ';
    out[0] = a[0];
  }
  mutable std::string text;
};

std::string order_of(const std::string& names) {
  std::string parts = names;
  std::vector<std::byte*> pointers;
  for (char& part : parts) pointers.push_back(reinterpret_cast<std::byte*>(&part));
  Scribe scribe;
  std::byte out;
  tree_sum(pointers, 1, scribe, &out);
  return scribe.text;
}

TEST(TreeSum, AddsNeighboursAsInTheDrawing) {
  EXPECT_EQ(order_of("0"), "");
  EXPECT_EQ(order_of("01"), "01 ");
  EXPECT_EQ(order_of("012"), "01 02 ");
  EXPECT_EQ(order_of("01234"), "01 23 02 04 ");
  EXPECT_EQ(order_of("01234567"), "01 23 45 67 02 46 04 ");
}

TEST(TreeSum, MayPutTheSumIntoAnyOfTheParts) {
  const testing::F32Adder adder;
  for (int count = 1; count <= 6; ++count) {
    for (int target = 0; target < count; ++target) {
      std::vector<float> parts;
      for (int i = 0; i < count; ++i) parts.push_back(static_cast<float>(1 << i));
      std::vector<std::byte*> pointers;
      for (float& part : parts) pointers.push_back(reinterpret_cast<std::byte*>(&part));

      tree_sum(pointers, 4, adder, pointers[target]);

      EXPECT_EQ(parts[target], static_cast<float>((1 << count) - 1));
    }
  }
}

TEST(TreeSum, RefusesHalfElements) {
  const testing::F32Adder adder;
  std::byte bytes[6];
  std::byte* parts[] = {bytes};
  EXPECT_THROW(tree_sum(parts, 6, adder, bytes), InternalError);
}

// The kernels against the loops of the tests, to the bit, for every tail.
TEST(TensorAdder, AddsLikeItsNaiveTwin) {
  ops::Compute compute(1);
  const TensorAdder f32(compute, DType::F32), bf16(compute, DType::BF16);
  const testing::F32Adder naive_f32;
  const testing::Bf16Adder naive_bf16;
  const auto numbers = testing::random_values(2000, 3);
  const auto bytes = std::as_bytes(std::span(numbers));
  for (std::size_t size = 0; size <= 400; size += 4) {
    const auto a = bytes.first(size), b = bytes.subspan(4000, size);
    Bytes out(size), expected(size);
    f32.add(a, b, out);
    naive_f32.add(a, b, expected);
    EXPECT_EQ(out, expected);
  }
  // As bf16 the upper halves are the numbers; the lower ones would be wild, so take only uppers.
  Bytes uppers;
  for (std::size_t i = 0; i < bytes.size(); i += 4) {
    uppers.insert(uppers.end(), {bytes[i + 2], bytes[i + 3]});
  }
  for (std::size_t size = 0; size <= 400; size += 2) {
    const std::span<const std::byte> a(uppers.data(), size), b(uppers.data() + 2000, size);
    Bytes out(size), expected(size);
    bf16.add(a, b, out);
    naive_bf16.add(a, b, expected);
    EXPECT_EQ(out, expected);
  }
}

}  // namespace
}  // namespace cleave::comm
