#include "cleave/ops/codec.h"

#include <limits>
#include <vector>

#include "ops/compare.h"
#include "ops/tensor.h"
#include <gtest/gtest.h>

#include "cleave/tensor/bf16.h"

namespace cleave::ops {
namespace {

using namespace cleave::testing;

constexpr std::int64_t kElements = 9 * 577;  // several pieces, and a part of a block

/// The codec itself, over all of x at once.
std::vector<std::byte> coded_at_once(Tensor& x, const Codec& codec, Chance chance) {
  std::vector<float> values;
  for (std::int64_t i = 0; i < x.view().elements(); ++i) values.push_back(x[i]);
  std::vector<std::byte> bytes(static_cast<std::size_t>(codec.bytes(std::ssize(values))));
  codec.encode(values, chance, bytes);
  return bytes;
}

TEST(CodecOp, GivesTheBytesOfTheCodecWhateverTheThreads) {
  const Philox random(7, "chance");
  for (const char* name : {"bf16", "int8", "int4"}) {
    for (const DType dtype : {DType::F32, DType::BF16}) {
      const Codec& codec = *find_codec(name);
      Tensor x = Tensor::random(dtype, {9, 577}, 3);
      const Chance chance{random, std::uint64_t{5} << 32};
      const std::vector<std::byte> expected = coded_at_once(x, codec, chance);
      for (const int threads : {1, 3}) {
        Compute compute(threads);
        Tensor out(DType::I32, {(codec.bytes(kElements) + 3) / 4});
        encode(compute, x.view(), &codec, chance, out.view());
        EXPECT_EQ(std::memcmp(out.view().bytes(), expected.data(), expected.size()), 0)
            << name << ", " << threads << " threads";

        Tensor y(dtype, {9, 577});
        decode(compute, out.view(), &codec, y.view());
        std::vector<float> values(kElements);
        codec.decode(expected, values);
        for (std::int64_t i = 0; i < kElements; ++i)
          ASSERT_EQ(y[i], dtype == DType::F32 ? values[i] : to_float(to_bf16(values[i]))) << i;
      }
    }
  }
}

TEST(CodecOp, LeavesATensorAsItIsWithoutACodec) {
  const Philox random(7, "chance");
  Compute compute(1);
  Tensor x = Tensor::random(DType::BF16, {9, 577}, 4);
  Tensor out(DType::I32, {(kElements * 2 + 3) / 4});
  Tensor y(DType::BF16, {9, 577});
  encode(compute, x.view(), nullptr, {random}, out.view());
  decode(compute, out.view(), nullptr, y.view());
  expect_same_bits(x.view(), y.view());
}

TEST(CodecOp, ShowsNumbersThatAreNotFinite) {
  const Philox random(7, "chance");
  Compute compute(1);
  for (const char* name : {"bf16", "int8", "int4"}) {
    for (const float wrong :
         {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity()}) {
      const Codec& codec = *find_codec(name);
      Tensor x = Tensor::random(DType::F32, {200}, 5);
      x.view().as<float>()[70] = wrong;
      Tensor out(DType::I32, {(codec.bytes(200) + 3) / 4});
      Tensor y(DType::F32, {200});
      encode(compute, x.view(), &codec, {random}, out.view());
      decode(compute, out.view(), &codec, y.view());
      EXPECT_FALSE(std::isfinite(y[70])) << name;
      EXPECT_TRUE(std::isfinite(y[199])) << name;
    }
  }
}

}  // namespace
}  // namespace cleave::ops
