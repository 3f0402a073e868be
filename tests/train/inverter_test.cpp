#include "cleave/train/evaluate/inverter.h"

#include <gtest/gtest.h>

#include "cleave/base/philox.h"

namespace cleave::train {
namespace {

constexpr std::int64_t kWidth = 24;
constexpr std::int64_t kIds = 10;

std::vector<float> inverter_noise(std::int64_t count, const char* name) {
  std::vector<float> values(static_cast<std::size_t>(count));
  Philox(1, "rows", name).fill_normal(0, values);
  return values;
}

/// Rows with an id each; what is seen is a row of its own for every id, times `clear`, and noise.
SeenRows rows_of_ids(std::int64_t rows, float clear) {
  const std::vector<float> table = inverter_noise(kIds * kWidth, "table");
  SeenRows out{.width = kWidth, .seen = inverter_noise(rows * kWidth, "noise")};
  const Philox random(1, "ids");
  for (std::int64_t row = 0; row < rows; ++row) {
    const auto id = static_cast<std::int32_t>(random.below(kIds, static_cast<std::uint64_t>(row)));
    out.ids.push_back(1000 + id);
    for (std::int64_t i = 0; i < kWidth; ++i)
      out.seen[static_cast<std::size_t>(row * kWidth + i)] +=
          clear * table[static_cast<std::size_t>(id * kWidth + i)];
  }
  return out;
}

Inversion tried(const SeenRows& rows) {
  ops::Compute compute(1, ops::Arithmetic::Exact);
  const std::int64_t known = rows.rows() * 3 / 4;
  return invert(compute, rows.part(0, known), rows.part(known, rows.rows() - known), 1);
}

TEST(Inverter, FindsIdsThatCanBeSeenAndNoOthers) {
  const Inversion plain = tried(rows_of_ids(800, 10));
  EXPECT_EQ(plain.found, 1.0);
  EXPECT_LT(plain.guessed, 0.2);

  const Inversion noise = tried(rows_of_ids(800, 0));
  EXPECT_LT(noise.found, 0.2);
}

TEST(Inverter, FindsNumbersThatCanBeSeenAndNoOthers) {
  SeenRows rows{.width = kWidth, .seen = inverter_noise(800 * kWidth, "seen"), .values_width = 3};
  SeenRows hidden = rows;
  for (std::int64_t row = 0; row < 800; ++row) {
    for (std::int64_t i = 0; i < 3; ++i)
      rows.values.push_back(rows.seen[static_cast<std::size_t>(row * kWidth + 2 * i)] * 5 + 2);
  }
  hidden.values = inverter_noise(800 * 3, "others");

  EXPECT_GT(tried(rows).found, 0.9);
  EXPECT_LT(tried(hidden).found, 0.05);
}

TEST(Inverter, ComesToTheSameForASeed) {
  const SeenRows rows = rows_of_ids(400, 0.5);
  const Inversion once = tried(rows), again = tried(rows);
  EXPECT_EQ(once.found, again.found);
  EXPECT_GT(once.found, once.guessed);
}

}  // namespace
}  // namespace cleave::train
