// Every op that has a kernel for accelerators, on the first one of this machine and on the
// processor: all tensors have the same bits afterwards. Skipped where there is no accelerator.
#include <string>
#include <vector>

#include "ops/tensor.h"
#include "ops/twins.h"
#include <gtest/gtest.h>

#include "cleave/ops/activation.h"
#include "cleave/ops/cross_entropy.h"
#include "cleave/ops/elementwise.h"
#include "cleave/ops/embedding.h"
#include "cleave/ops/norm.h"
#include "cleave/ops/reduce.h"
#include "cleave/ops/rope.h"
#include "cleave/ops/windows.h"

namespace cleave::ops {
namespace {

using testing::OnAccelerator;
using testing::Tensor;
using Named = testing::Twins::Named;
using At = testing::Twins::At;

TEST_P(OnAccelerator, AddsScalesFillsAndCopiesWithTheBitsOfTheProcessor) {
  const Named a = twins().random(dtype(), {6, 5, 67}), b = twins().random(dtype(), {6, 5, 67});
  const Named wide = twins().random(DType::F32, {6, 5, 67}), w = twins().random(DType::F32, {2010});
  const Named row = twins().random(dtype(), {67});
  const DType other = dtype() == DType::F32 ? DType::BF16 : DType::F32;
  const Named converted = twins().random(other, {6, 5, 67});
  twins().expect_same("dense", [&](Compute& c, const At& at) {
    add(c, at(a), at(b), at(a));
    scale(c, at(a), 0.37f, at(b));
    copy(c, at(b), at(converted));
    weighted_sum(c, {at(wide).reshaped({2010}), 0.3f}, {at(w), -1.7f}, at(w));
  });
  twins().expect_same("strided", [&](Compute& c, const At& at) {
    add(c, at(a).slice(2, 3, 41), at(b).slice(2, 7, 41), at(a).slice(2, 3, 41));
    fill(c, 0.1f, at(b).slice(2, 60, 7));
    copy(c, at(a).slice(1, 1, 3), at(converted).slice(1, 2, 3));
    const ConstView line = at(row);
    const View matrix = at(a).reshaped({30, 67});
    add(c, matrix, ConstView(line.bytes(), dtype(), {30, 67}, {0, 1, 0, 0}), matrix);
  });
}

TEST_P(OnAccelerator, ActivatesWithTheBitsOfTheProcessor) {
  for (const auto& [tokens, width] : {std::pair{1, 1}, {3, 64}, {7, 131}, {33, 96}}) {
    const Named x = twins().random(dtype(), {tokens, 2 * width});
    const Named y = twins().random(dtype(), {tokens, 2 * width});
    const Named half = twins().random(dtype(), {tokens, width});
    twins().expect_same("gelu, swiglu", [&](Compute& c, const At& at) {
      scale(c, at(x), 9.0f, at(x));
      for (const GeluForm form : {GeluForm::Tanh, GeluForm::Exact, GeluForm::Quick}) {
        gelu(c, at(x), at(y), form);
        gelu_backward(c, at(x), at(y), at(y), form);
      }
      geglu(c, at(x), at(half));
      geglu_backward(c, at(x), at(half), at(y));
      swiglu(c, at(x), at(half));
      swiglu_backward(c, at(x), at(half), at(x));
    });
  }
}

TEST_P(OnAccelerator, RotatesWithTheBitsOfTheProcessor) {
  Tensor cos(DType::F32, {24, 16}), sin(DType::F32, {24, 16});
  for (std::int64_t i = 0; i < 24 * 16; ++i) {
    cos.view().as<float>()[i] = 0.5f + static_cast<float>(i % 7) * 0.05f;
    sin.view().as<float>()[i] = 0.1f + static_cast<float>(i % 11) * 0.07f;
  }
  const Named c0 = twins().put(cos.view()), s0 = twins().put(sin.view());
  const Named x = twins().random(dtype(), {34, 5, 32});
  twins().expect_same("rope", [&](Compute& c, const At& at) {
    RopeArgs args{.x = at(x).slice(1, 1, 3), .cos = at(c0), .sin = at(s0), .sequence = 17};
    rope(c, args);
    args.rotation = Rotation::Backward;
    args.first_position = 3;
    rope(c, args);
  });
}

TEST_P(OnAccelerator, NormalizesWithTheBitsOfTheProcessor) {
  for (const auto& [tokens, hidden] :
       {std::pair{1, 1}, {3, 15}, {33, 64}, {70, 203}, {1030, 33}, {5, 1536}}) {
    const Named x = twins().random(dtype(), {tokens, hidden});
    const Named dy = twins().random(dtype(), {tokens, hidden});
    const Named branch = twins().random(dtype(), {tokens, hidden});
    const Named w = twins().random(dtype(), {hidden}), b = twins().random(dtype(), {hidden});
    const Named y = twins().random(dtype(), {tokens, hidden});
    const Named mean = twins().random(DType::F32, {tokens});
    const Named rstd = twins().random(DType::F32, {tokens});
    const Named dw = twins().random(DType::F32, {hidden}),
                db = twins().random(DType::F32, {hidden});
    twins().expect_same("layernorm", [&](Compute& c, const At& at) {
      layernorm(c, {.x = at(x),
                    .weight = at(w),
                    .bias = at(b),
                    .y = at(y),
                    .mean = at(mean),
                    .rstd = at(rstd)});
      layernorm_backward(c, {.dy = at(dy),
                             .x = at(x),
                             .weight = at(w),
                             .mean = at(mean),
                             .rstd = at(rstd),
                             .add = at(branch),
                             .dx = at(dy),
                             .dweight = at(dw),
                             .dbias = at(db)});
    });
    twins().expect_same("rmsnorm", [&](Compute& c, const At& at) {
      rmsnorm(c, {.x = at(x), .weight = at(w), .y = at(y), .rstd = at(rstd)});
      rmsnorm_backward(c, {.dy = at(y),
                           .x = at(x),
                           .weight = at(w),
                           .rstd = at(rstd),
                           .dx = at(dy),
                           .dweight = at(dw)});
    });
    twins().expect_same("rmsnorm by one plus its weight", [&](Compute& c, const At& at) {
      const NormWeight form = NormWeight::OnePlus;
      rmsnorm(c, {.x = at(x), .weight = at(w), .form = form, .y = at(y), .rstd = at(rstd)});
      rmsnorm_backward(c, {.dy = at(dy),
                           .x = at(x),
                           .weight = at(w),
                           .form = form,
                           .rstd = at(rstd),
                           .dx = at(y),
                           .dweight = at(dw)});
    });
  }
}

TEST_P(OnAccelerator, SumsWithTheBitsOfTheProcessor) {
  const Named a = twins().random(dtype(), {77, 130}), out = twins().random(DType::F32, {130});
  const Named f = twins().random(DType::F32, {3 * 4096 + 1001});
  std::vector<double> sums[2];
  bool finite[2] = {};
  int run = 0;
  twins().expect_same("sums", [&](Compute& c, const At& at) {
    add_column_sums(c, at(a), at(out));
    add_column_sums(c, at(a).slice(0, 3, 8).slice(1, 5, 70), at(out).slice(0, 9, 70));
    sums[run].resize(4);
    sum_of_squares(c, at(f), sums[run]);
    finite[run] = all_finite(c, at(a).slice(1, 5, 70));
    fill(c, std::numeric_limits<float>::infinity(), at(a).slice(0, 4, 1).slice(1, 6, 1));
    finite[run] = finite[run] && !all_finite(c, at(a).slice(1, 5, 70));
    ++run;
  });
  EXPECT_EQ(sums[0], sums[1]);
  EXPECT_TRUE(finite[0] && finite[1]);
}

TEST_P(OnAccelerator, EmbedsWithTheBitsOfTheProcessor) {
  for (const auto& [tokens, hidden] : {std::pair{1, 1}, {34, 65}, {64, 96}}) {
    const std::int64_t sequence = tokens == 34 ? 17 : tokens;
    const Named ids = twins().ids(tokens, 40);
    const Named table = twins().random(dtype(), {40, hidden});
    const Named positions = twins().random(dtype(), {sequence, hidden});
    const Named y = twins().random(dtype(), {tokens, hidden});
    const Named dtable = twins().random(DType::F32, {40, hidden});
    const Named dpositions = twins().random(DType::F32, {sequence, hidden});
    twins().expect_same("embedding", [&](Compute& c, const At& at) {
      embedding(c, {.ids = at(ids),
                    .table = at(table),
                    .positions = at(positions),
                    .sequence = sequence,
                    .y = at(y)});
      embedding_backward(c, at(ids), at(y), at(dtable));
      position_backward(c, at(y), sequence, at(dpositions));
      const VocabRows part{10, 40};
      embedding(c, {.ids = at(ids), .table = at(table).slice(0, 0, 20), .rows = part, .y = at(y)});
      embedding_backward(c, at(ids), at(y), at(dtable).slice(0, 0, 20), part);
      const VocabRows scaled{.scale = 5.625f};
      embedding(c, {.ids = at(ids), .table = at(table), .rows = scaled, .y = at(y)});
      embedding_backward(c, at(ids), at(y), at(dtable), scaled);
      embedding_backward(c, at(ids), at(y), at(dtable), {.first = 5, .vocabulary = 45, .still = 9});
    });
  }
}

TEST_P(OnAccelerator, LosesWithTheBitsOfTheProcessor) {
  for (const std::int64_t vocab : {3, 64, 1009}) {
    const std::int64_t tokens = 23;
    const Named logits = twins().random(dtype(), {tokens, vocab + 5});
    const Named blocks = twins().random(dtype(), {tokens, vocab + 5});
    Named targets = twins().ids(tokens, static_cast<std::int32_t>(vocab));
    Tensor ignoring(DType::I32, {tokens});
    for (std::int64_t t = 0; t < tokens; ++t)
      ignoring.view().as<std::int32_t>()[t] =
          static_cast<std::int32_t>(t % 5 == 3 ? -1 : t % vocab);
    targets = twins().put(ignoring.view());
    const Named losses = twins().random(DType::F32, {tokens}),
                lse = twins().random(DType::F32, {tokens});
    const Named hit = twins().random(DType::F32, {tokens});
    Named state[6] = {losses, losses, losses, losses, losses, losses};
    for (Named& s : state) s = twins().random(DType::F32, {tokens});
    const std::int64_t cut = vocab / 3;
    twins().expect_same("cross entropy", [&](Compute& c, const At& at) {
      const View all = at(logits).slice(1, 0, vocab), other = at(blocks).slice(1, 0, vocab);
      scale(c, all, 12.0f, all);
      cross_entropy(c, all, at(targets), at(losses), at(lse));
      hits(c, all, at(targets), at(hit));
      cross_entropy_backward(c, {all, 0}, at(targets), at(lse), 0.03f);
      const SoftmaxState left{at(state[0]), at(state[1]), at(state[2])};
      const SoftmaxState right{at(state[3]), at(state[4]), at(state[5])};
      const View first = other.slice(1, 0, cut), second = other.slice(1, cut, 1);
      const View third = other.slice(1, cut + 1, vocab - cut - 1);
      cross_entropy_partial(c, {first, 0}, at(targets), left, Write::Overwrite);
      cross_entropy_partial(c, {second, cut}, at(targets), left, Write::Accumulate);
      cross_entropy_partial(c, {third, cut + 1}, at(targets), right, Write::Overwrite);
      cross_entropy_merge(c, right, left);
      cross_entropy_finish(c, left, at(targets), at(losses), at(lse));
      cross_entropy_backward(c, {second, cut}, at(targets), at(lse), 0.03f);
    });
  }
}

TEST_P(OnAccelerator, SlidesSquaresWithTheBitsOfTheProcessor) {
  for (const WindowShape& shape : {WindowShape{5, 7, 3, 3, 1}, WindowShape{9, 8, 2, 3, 2},
                                   WindowShape{6, 6, 4, 2, 2}, WindowShape{7, 7, 1, 2, 3}}) {
    const std::int64_t samples = 3;
    const std::int64_t row = shape.channels * shape.size * shape.size;
    const Named x = twins().random(dtype(), {samples, shape.values()});
    const Named dx = twins().random(dtype(), {samples, shape.values()});
    const Named columns = twins().random(dtype(), {samples * shape.places(), row});
    const Named y = twins().random(dtype(), {samples, shape.places() * shape.channels});
    twins().expect_same("squares", [&](Compute& c, const At& at) {
      // Among few values the largest is there more than once, and NaN wins.
      fill(c, 0.5f, at(x).slice(1, 2, 9));
      fill(c, std::numeric_limits<float>::quiet_NaN(), at(x).slice(0, 1, 1).slice(1, 4, 2));
      max_pool(c, shape, at(x), at(y));
      if (shape.stride >= shape.size) max_pool_backward(c, shape, at(x), at(y), at(dx));
      unfold(c, shape, at(dx), at(columns));
      fold(c, shape, at(columns), at(dx));
      relu_backward(c, at(x), at(dx), at(dx));
      relu(c, at(x), at(x));
      to_channels_first(c, shape.channels, at(dx), at(x));
      to_channels_last(c, shape.channels, at(x), at(dx));
      to_channels_last(c, shape.channels, at(dx), at(x));
    });
  }
}

INSTANTIATE_TEST_SUITE_P(EveryFormat, OnAccelerator, ::testing::Values(DType::F32, DType::BF16),
                         [](const auto& info) { return std::string(to_string(info.param)); });

}  // namespace
}  // namespace cleave::ops
