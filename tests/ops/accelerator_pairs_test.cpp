// What joins images and texts, and convolutional maps, on the first accelerator of this machine and
// on the processor: all tensors have the same bits afterwards.
#include "ops/twins.h"
#include <gtest/gtest.h>

#include "cleave/ops/attention_pool.h"
#include "cleave/ops/elementwise.h"
#include "cleave/ops/feature_maps.h"
#include "cleave/ops/pair_loss.h"
#include "cleave/ops/placed_rows.h"
#include "cleave/ops/unit_rows.h"

namespace cleave::ops {
namespace {

class PairsOnAccelerator : public testing::OnAccelerator {};
using Named = testing::Twins::Named;
using At = testing::Twins::At;

TEST_P(PairsOnAccelerator, LosePairsWithTheBitsOfTheProcessor) {
  for (const float spread : {1.0f, 40.0f, 900.0f}) {
    for (const std::int64_t columns : {5, 64, 131}) {
      const Named logits = twins().random(DType::F32, {5, columns});
      const Named losses = twins().random(DType::F32, {5}), sums = twins().random(DType::F32, {5});
      twins().expect_same("pairs", [&](Compute& c, const At& at) {
        scale(c, at(logits), spread, at(logits));
        const Pairing pairing{.first = columns - 5, .bias = -10.0f};
        pair_losses(c, at(logits), pairing, at(losses));
        pair_losses_backward(c, at(logits), pairing, 0.125f, at(sums));
      });
    }
  }
}

TEST_P(PairsOnAccelerator, AreOfLengthOneWithTheBitsOfTheProcessor) {
  for (const std::int64_t features : {1, 48, 67, 200}) {
    const Named x = twins().random(dtype(), {7, features}),
                dx = twins().random(dtype(), {7, features});
    const Named y = twins().random(DType::F32, {7, features}),
                inverse = twins().random(DType::F32, {7});
    twins().expect_same("unit rows", [&](Compute& c, const At& at) {
      fill(c, 0, at(x).slice(0, 3, 1));
      unit_rows(c, at(x), at(y), at(inverse));
      scale(c, at(y), 0.3f, at(y));
      unit_rows_backward(c, at(y), at(x), at(inverse), at(dx));
    });
  }
}

TEST_P(PairsOnAccelerator, StandInTextsWithTheBitsOfTheProcessor) {
  for (const std::int64_t hidden : {1, 33, 130}) {
    const Named x = twins().random(dtype(), {6, hidden}), dx = twins().random(dtype(), {6, hidden});
    const Named table = twins().random(dtype(), {11, hidden});
    const Named dtable = twins().random(DType::F32, {11, hidden});
    const Named y = twins().random(dtype(), {23, hidden}),
                sum = twins().random(dtype(), {23, hidden});
    const Named ids = twins().ids(23, 11), places = twins().ids(23, 9);  // three are of the text
    twins().expect_same("placed rows", [&](Compute& c, const At& at) {
      const PlacedTokens tokens{.ids = at(ids), .places = at(places), .still = 4};
      place_rows(c, tokens, at(x), at(table), at(y));
      place_rows_backward(c, at(places), at(y), at(dx));
      place_table_backward(c, tokens, 6, at(y), at(dtable));
      place_rows(c, tokens, ConstView(nullptr, dtype(), {6, hidden}), at(table), at(y));
      add_rows(c, at(places), at(y), at(x), at(y));
      add_rows(c, at(places), at(y), at(x), at(sum));
      add_rows(c, ConstView(), at(sum), ConstView(), at(y));
    });
  }
}

TEST_P(PairsOnAccelerator, PoolByAttentionWithTheBitsOfTheProcessor) {
  for (const PoolShape& shape :
       {PoolShape{1, 1, 1, 8}, PoolShape{3, 17, 2, 12}, PoolShape{2, 50, 4, 5}}) {
    const std::int64_t rows = shape.sequences * shape.sequence;
    const Named q = twins().random(DType::F32, {shape.features()}),
                dq = twins().random(DType::F32, {shape.features()});
    const Named kv = twins().random(dtype(), {rows, 2 * shape.features()});
    const Named dkv = twins().random(dtype(), {rows, 2 * shape.features()});
    const Named y = twins().random(dtype(), {shape.sequences, shape.features()});
    const Named p = twins().random(DType::F32, {shape.sequences, shape.heads, shape.sequence});
    twins().expect_same("attention pool", [&](Compute& c, const At& at) {
      attention_pool(c, shape, at(q), at(kv), at(y), at(p));
      attention_pool_backward(
          c, shape,
          {.q = at(q), .kv = at(kv), .p = at(p), .dy = at(y), .dkv = at(dkv), .dq = at(dq)});
    });
  }
}

TEST_P(PairsOnAccelerator, KeepTheirPixelsWithTheBitsOfTheProcessor) {
  for (const MapShape& map : {MapShape{3, 5, 2}, MapShape{4, 4, 6}, MapShape{1, 1, 1}}) {
    const std::int64_t samples = 3;
    const MapShape padded{map.height + 4, map.width + 4, map.channels};
    const MapShape large{map.height * 3, map.width * 3, map.channels};
    const Named x = twins().random(dtype(), {samples, map.values()}),
                dx = twins().random(dtype(), {samples, map.values()});
    const Named wide = twins().random(dtype(), {samples, padded.values()});
    const Named up = twins().random(dtype(), {samples, large.values()});
    const Named mean = twins().random(dtype(), {samples, map.channels});
    twins().expect_same("maps", [&](Compute& c, const At& at) {
      pad(c, map, 2, at(x), at(wide));
      scale(c, at(wide), 0.5f, at(wide));
      crop(c, map, 2, at(wide), at(dx));
      upsample(c, map, 3, at(dx), at(up));
      scale(c, at(up), 1.1f, at(up));
      sum_squares(c, map, 3, at(up), at(dx));
      mean_pixels(c, at(dx), at(mean));
      mean_pixels_backward(c, at(mean), at(dx));
    });
  }
}

TEST_P(PairsOnAccelerator, AreNormalisedInGroupsWithTheBitsOfTheProcessor) {
  for (const std::int64_t groups : {1, 3}) {
    const std::int64_t samples = 4, pixels = 10, channels = 6;
    const Shape shape{samples, pixels * channels};
    const Named x = twins().random(dtype(), shape), y = twins().random(dtype(), shape),
                dx = twins().random(dtype(), shape);
    const Named weight = twins().random(dtype(), {channels}),
                bias = twins().random(dtype(), {channels});
    const Named mean = twins().random(DType::F32, {samples, groups}),
                rstd = twins().random(DType::F32, {samples, groups});
    const Named dweight = twins().random(DType::F32, {channels}),
                dbias = twins().random(DType::F32, {channels});
    twins().expect_same("group norm", [&](Compute& c, const At& at) {
      group_norm(c, {at(x), at(weight), at(bias), groups, 1e-5f, at(y), at(mean), at(rstd)});
      group_norm_backward(c, {at(y), at(x), at(weight), at(mean), at(rstd), at(dx)});
      add_group_norm_gradients(c, {at(y), at(x), at(mean), at(rstd), at(dweight), at(dbias)});
      add_group_norm_gradients(c, {at(y), at(x), at(mean), at(rstd), {}, at(dbias)});
    });
  }
}

TEST_P(PairsOnAccelerator, AreShuffledWithTheBitsOfTheProcessor) {
  const Named x = twins().random(dtype(), {3, 2, 4, 10}),
              y = twins().random(dtype(), {3, 2, 4, 10});
  twins().expect_same("strided copy", [&](Compute& c, const At& at) {
    const View turned(at(y).bytes(), dtype(), {3, 2, 4, 10}, {80, 10, 20, 1});
    copy(c, at(x), turned);
    copy(c, turned, at(x));
  });
}

INSTANTIATE_TEST_SUITE_P(EveryFormat, PairsOnAccelerator,
                         ::testing::Values(DType::F32, DType::BF16),
                         [](const auto& info) { return std::string(to_string(info.param)); });

}  // namespace
}  // namespace cleave::ops
