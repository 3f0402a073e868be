#include "cleave/ops/placed_rows.h"

#include "ops/compare.h"
#include "ops/every_target.h"
#include "ops/tensor.h"
#include <gtest/gtest.h>

#include "cleave/ops/reference/placed_rows.h"

namespace cleave::ops {
namespace {

using namespace cleave::testing;

constexpr std::int64_t kEntries = 11;
constexpr std::int64_t kPlaced = 36;  // tokens
constexpr std::int64_t kImageRows = 7;

/// Numbers from -3 to 8, some of them twice: rows, and places that are none.
Tensor some_places() {
  Tensor places(DType::I32, {kPlaced});
  for (std::int64_t t = 0; t < kPlaced; ++t)
    places.view().as<std::int32_t>()[t] = static_cast<std::int32_t>(t * t % 12) - 3;
  return places;
}

/// Where an image stands the id may be anything.
Tensor ids_beside(ConstView places) {
  Tensor ids(DType::I32, {kPlaced});
  for (std::int64_t t = 0; t < kPlaced; ++t) {
    const std::int32_t place = places.as<std::int32_t>()[t];
    const bool image = place >= 0 && place < kImageRows;
    ids.view().as<std::int32_t>()[t] = image ? -5 : static_cast<std::int32_t>(t * 5 % kEntries);
  }
  return ids;
}

TEST(PlacedRows, GiveTheBitsOfTheReference) {
  Tensor places = some_places();
  Tensor ids = ids_beside(places.view());
  const PlacedTokens tokens{ids.view(), places.view(), 3};
  on_every_target([&](Compute& compute) {
    for (DType dtype : {DType::F32, DType::BF16}) {
      for (std::int64_t hidden : {1, 65, 768}) {
        Tensor x = Tensor::random(dtype, {kImageRows, hidden}, 1);
        Tensor table = Tensor::random(dtype, {kEntries, hidden}, 2);
        Tensor dy = Tensor::random(dtype, {kPlaced, hidden}, 3);
        Tensor y(dtype, {kPlaced, hidden});
        Tensor expected_y(dtype, {kPlaced, hidden});
        Tensor dx = Tensor::random(dtype, {kImageRows, hidden}, 4);
        Tensor expected_dx(dtype, {kImageRows, hidden});
        Tensor text = Tensor::random(dtype, {kPlaced, hidden}, 6);
        Tensor sum(dtype, {kPlaced, hidden});
        Tensor expected_sum(dtype, {kPlaced, hidden});
        Tensor dtable = Tensor::random(DType::F32, {kEntries, hidden}, 5);
        Tensor expected_dtable = Tensor::random(DType::F32, {kEntries, hidden}, 5);

        place_rows(compute, tokens, x.view(), table.view(), y.view());
        reference::place_rows(tokens, x.view(), table.view(), expected_y.view());
        add_rows(compute, places.view(), text.view(), x.view(), sum.view());
        reference::add_rows(places.view(), text.view(), x.view(), expected_sum.view());
        add_rows(compute, places.view(), text.view(), x.view(), text.view());
        place_rows_backward(compute, places.view(), dy.view(), dx.view());
        reference::place_rows_backward(places.view(), dy.view(), expected_dx.view());
        place_table_backward(compute, tokens, kImageRows, dy.view(), dtable.view());
        reference::place_table_backward(tokens, kImageRows, dy.view(), expected_dtable.view());

        expect_same_bits(y.view(), expected_y.view());
        expect_same_bits(sum.view(), expected_sum.view());
        expect_same_bits(text.view(), expected_sum.view());  // in place
        expect_same_bits(dx.view(), expected_dx.view());
        expect_same_bits(dtable.view(), expected_dtable.view());
      }
    }
  });
}

constexpr std::int64_t kHidden = 5;

/// Small whole numbers, so that sums are exact.
Tensor whole(Shape shape, std::int64_t factor) {
  Tensor tensor(DType::F32, shape);
  for (std::int64_t i = 0; i < tensor.view().elements(); ++i)
    tensor.view().as<float>()[i] = static_cast<float>(i * factor % 9 - 4);
  return tensor;
}

double product(ConstView a, ConstView b) {
  double sum = 0;
  for (std::int64_t i = 0; i < a.elements(); ++i)
    sum += static_cast<double>(a.as<float>()[i]) * static_cast<double>(b.as<float>()[i]);
  return sum;
}

// <dy, F(x, table)> = <dx, x> + <dtable, table>.
TEST(PlacedRows, AreAdjointToTheirGradients) {
  Tensor places = some_places();
  Tensor ids = ids_beside(places.view());
  const PlacedTokens tokens{ids.view(), places.view()};
  Tensor x = whole({kImageRows, kHidden}, 2);
  Tensor table = whole({kEntries, kHidden}, 5);
  Tensor dy = whole({kPlaced, kHidden}, 7);
  Tensor y(DType::F32, {kPlaced, kHidden});
  Tensor dx(DType::F32, {kImageRows, kHidden});
  Tensor dtable = whole({kEntries, kHidden}, 0);
  for (std::int64_t i = 0; i < dtable.view().elements(); ++i) dtable.view().as<float>()[i] = 0;
  Compute compute(1);

  place_rows(compute, tokens, x.view(), table.view(), y.view());
  place_rows_backward(compute, places.view(), dy.view(), dx.view());
  place_table_backward(compute, tokens, kImageRows, dy.view(), dtable.view());

  EXPECT_NE(product(dy.view(), y.view()), 0);
  EXPECT_EQ(product(dy.view(), y.view()),
            product(dx.view(), x.view()) + product(dtable.view(), table.view()));
}

// <dy, F(x, rows)> = <dy, x> + <drows, rows>.
TEST(PlacedRows, AreAdjointToTheirGradientsWhereTheyAreAdded) {
  Tensor places = some_places();
  Tensor x = whole({kPlaced, kHidden}, 5);
  Tensor rows = whole({kImageRows, kHidden}, 2);
  Tensor dy = whole({kPlaced, kHidden}, 7);
  Tensor y(DType::F32, {kPlaced, kHidden});
  Tensor drows(DType::F32, {kImageRows, kHidden});
  Compute compute(1);

  add_rows(compute, places.view(), x.view(), rows.view(), y.view());
  place_rows_backward(compute, places.view(), dy.view(), drows.view());

  EXPECT_NE(product(drows.view(), rows.view()), 0);
  EXPECT_EQ(product(dy.view(), y.view()),
            product(dy.view(), x.view()) + product(drows.view(), rows.view()));
}

TEST(PlacedRows, AreNotMissedWhereNoneArrive) {
  Tensor places = some_places();
  Tensor x = Tensor::random(DType::F32, {kPlaced, kHidden}, 5);
  Tensor y(DType::F32, {kPlaced, kHidden});
  Compute compute(1);

  add_rows(compute, places.view(), x.view(), ConstView(), y.view());

  expect_same_bits(y.view(), x.view());
}

}  // namespace
}  // namespace cleave::ops
