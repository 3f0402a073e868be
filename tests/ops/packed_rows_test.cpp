#include "cleave/ops/packed_rows.h"

#include <bit>
#include <cmath>
#include <limits>
#include <vector>

#include "ops/compare.h"
#include "ops/every_target.h"
#include "ops/tensor.h"
#include <gtest/gtest.h>

#include "cleave/ops/embedding.h"
#include "cleave/ops/reference/embedding.h"
#include "cleave/spec/packed_rows.h"

namespace cleave::ops {
namespace {

using namespace cleave::testing;

constexpr std::int64_t kWidths[] = {1, 3, 4, 63, 64, 65, 576, 768};

std::vector<std::int32_t> packed(const std::vector<float>& values) {
  std::vector<std::int32_t> row(static_cast<std::size_t>(packed_row_words(std::ssize(values))));
  pack_row(values, reinterpret_cast<std::byte*>(row.data()));
  return row;
}

std::vector<float> unpacked(const std::vector<std::int32_t>& row, std::size_t numbers) {
  std::vector<float> values(numbers);
  unpack_row(reinterpret_cast<const std::byte*>(row.data()), values);
  return values;
}

std::vector<float> some_numbers(std::int64_t count, std::uint32_t seed) {
  Tensor tensor = Tensor::random(DType::F32, {count}, seed);
  return {tensor.view().as<float>(), tensor.view().as<float>() + count};
}

/// A table in packed rows, and the same numbers as they come back.
struct PackedTables {
  PackedTables(DType dtype, std::int64_t rows, std::int64_t width)
      : words(DType::I32, {rows, packed_row_words(width)}), plain(dtype, {rows, width}) {
    for (std::int64_t r = 0; r < rows; ++r) {
      std::byte* const row = words.view().slice(0, r, 1).bytes();
      pack_row(some_numbers(width, static_cast<std::uint32_t>(r) + 1), row);
      unpack_row(row, dtype, plain.view().slice(0, r, 1).bytes(), static_cast<std::size_t>(width));
    }
  }
  Tensor words;
  Tensor plain;
};

TEST(PackedRows, AreWithinHalfAStepOfTheNumbers) {
  for (const std::int64_t width : kWidths) {
    const std::vector<float> values = some_numbers(width, 1);
    const std::vector<std::int32_t> row = packed(values);
    const std::vector<float> back = unpacked(row, values.size());
    for (std::size_t i = 0; i < values.size(); ++i) {
      // The quotient is rounded once before it is taken to the nearest level.
      const auto scale = std::bit_cast<float>(row[i / 64]);
      EXPECT_LE(std::fabs(values[i] - back[i]), scale * (0.5f + 127 * 0x1p-24f))
          << width << ' ' << i;
      EXPECT_EQ(row[i / 64] & 0xff, 0) << "a scale has 16 significant bits";
    }
  }
}

TEST(PackedRows, StayTheSameWhenTheyAreUnpackedAndPackedAgain) {
  for (const std::int64_t width : kWidths) {
    for (std::uint32_t seed = 1; seed <= 200; ++seed) {
      const std::vector<std::int32_t> row = packed(some_numbers(width, seed));
      ASSERT_EQ(packed(unpacked(row, static_cast<std::size_t>(width))), row)
          << width << ' ' << seed;
    }
  }
}

// The same on every processor: one block and a number of the next.
TEST(PackedRows, HaveTheseBytes) {
  std::vector<float> values(65);
  for (std::size_t i = 0; i < 65; ++i)
    values[i] = static_cast<float>(static_cast<int>(i * i % 61) - 30) / 7;
  const std::vector<std::int32_t> row = packed(values);

  const std::vector<std::uint32_t> expected = {std::bit_cast<std::uint32_t>(0x1.1474p-5f),
                                               std::bit_cast<std::uint32_t>(0x1.8308p-6f),
                                               0xa7928581,
                                               0x5019ebc5,
                                               0x7f26d68e,
                                               0x33b848de,
                                               0x6ed13fb4,
                                               0x2f72bc11,
                                               0x7796c1f3,
                                               0x44444c5d,
                                               0x96775d4c,
                                               0x722ff3c1,
                                               0xd16e11bc,
                                               0xb833b43f,
                                               0x267fde48,
                                               0x19508ed6,
                                               0x92a7c5eb,
                                               0x92858185,
                                               0x00000081};
  EXPECT_EQ((std::vector<std::uint32_t>(row.begin(), row.end())), expected);
}

TEST(PackedRows, HoldZerosAndShowWhatIsNotFinite) {
  std::vector<float> values(130, 0.0f);
  values[70] = std::numeric_limits<float>::infinity();
  const std::vector<float> back = unpacked(packed(values), values.size());
  for (std::size_t i = 0; i < values.size(); ++i) EXPECT_EQ(std::isnan(back[i]), i / 64 == 1) << i;
  EXPECT_EQ(back[0], 0);
  EXPECT_EQ(back[129], 0);
}

TEST(PackedRows, AreLookedUpAsThePlainTableOfTheirNumbers) {
  constexpr std::int64_t kRows = 11;
  Tensor ids(DType::I32, {36});
  for (std::int64_t t = 0; t < 36; ++t)
    ids.view().as<std::int32_t>()[t] = static_cast<std::int32_t>(t * t % kRows);
  on_every_target([&](Compute& compute) {
    for (const DType dtype : {DType::F32, DType::BF16}) {
      for (const std::int64_t width : kWidths) {
        PackedTables table(dtype, kRows, width);
        Tensor positions = Tensor::random(dtype, {9, width}, 2);
        for (const float scale : {1.0f, 1.7f}) {
          Tensor y(dtype, {36, width}), plain = y, reference = y;
          EmbeddingArgs args{.ids = ids.view(),
                             .table = table.words.view(),
                             .rows = {.scale = scale},
                             .positions = scale == 1 ? positions.view() : View(),
                             .sequence = 9,
                             .y = y.view()};
          embedding(compute, args);
          args.y = reference.view();
          reference::embedding(args);
          args.y = plain.view();
          args.table = table.plain.view();
          embedding(compute, args);

          expect_same_bits(y.view(), reference.view());
          expect_same_bits(y.view(), plain.view());
        }
      }
    }
  });
}

}  // namespace
}  // namespace cleave::ops
