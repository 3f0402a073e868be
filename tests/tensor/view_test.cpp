#include "cleave/tensor/view.h"

#include <numeric>
#include <vector>

#include <gtest/gtest.h>

namespace cleave {
namespace {

/// 0, 1, 2, … in an f32 tensor.
class Counted {
 public:
  explicit Counted(Shape shape) : values_(static_cast<std::size_t>(shape.elements())) {
    std::iota(values_.begin(), values_.end(), 0.0f);
    view_ = View(reinterpret_cast<std::byte*>(values_.data()), DType::F32, shape);
  }
  View view() const { return view_; }

 private:
  std::vector<float> values_;
  View view_;
};

float at(ConstView matrix, std::int64_t row, std::int64_t column) {
  return matrix.as<float>()[row * matrix.stride(0) + column * matrix.stride(1)];
}

TEST(View, SlicesShareTheMemoryOfTheWhole) {
  const Counted counted({4, 5});
  const View rows = counted.view().slice(0, 1, 2);
  const View columns = counted.view().slice(1, 2, 3);

  EXPECT_EQ(rows.shape(), Shape({2, 5}));
  EXPECT_TRUE(rows.dense());
  EXPECT_EQ(at(rows, 0, 0), 5);
  EXPECT_EQ(columns.shape(), Shape({4, 3}));
  EXPECT_FALSE(columns.dense());
  EXPECT_EQ(at(columns, 3, 0), 17);
  columns.as<float>()[0] = -1;
  EXPECT_EQ(at(counted.view(), 0, 2), -1);
}

TEST(View, TransposingExchangesIndicesAndMovesNothing) {
  const Counted counted({3, 4});
  const View turned = counted.view().transposed();

  EXPECT_EQ(turned.shape(), Shape({4, 3}));
  EXPECT_EQ(turned.bytes(), counted.view().bytes());
  for (std::int64_t row = 0; row < 3; ++row) {
    for (std::int64_t column = 0; column < 4; ++column)
      EXPECT_EQ(at(turned, column, row), at(counted.view(), row, column));
  }
}

TEST(View, RefusesWhatWouldReadBesideIt) {
  const Counted counted({2, 3});
  EXPECT_THROW(counted.view().slice(1, 2, 2), InternalError);
  EXPECT_THROW(counted.view().reshaped({4, 2}), InternalError);
  EXPECT_THROW(counted.view().slice(1, 0, 2).reshaped({4}), InternalError) << "it has gaps";
  EXPECT_THROW(counted.view().as<std::int32_t>(), InternalError);
}

}  // namespace
}  // namespace cleave
