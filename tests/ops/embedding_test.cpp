#include "cleave/ops/embedding.h"

#include "ops/compare.h"
#include "ops/every_target.h"
#include "ops/tensor.h"
#include <gtest/gtest.h>

#include "cleave/ops/reference/embedding.h"

namespace cleave::ops {
namespace {

using namespace cleave::testing;

constexpr std::int64_t kTableRows = 11;
constexpr std::int64_t kTokenIds = 36;
constexpr std::int64_t kIdsInSequence = 9;

Tensor repeating_ids() {
  Tensor ids(DType::I32, {kTokenIds});
  for (std::int64_t t = 0; t < kTokenIds; ++t) {
    ids.view().as<std::int32_t>()[t] = static_cast<std::int32_t>(t * t % kTableRows);
  }
  return ids;
}

TEST(Embedding, GivesTheBitsOfTheReference) {
  Tensor ids = repeating_ids();
  on_every_target([&](Compute& compute) {
    for (DType dtype : {DType::F32, DType::BF16}) {
      for (std::int64_t hidden : {1, 7, 63, 64, 65, 768}) {
        for (bool learned : {false, true}) {
          Tensor table = Tensor::random(dtype, {kTableRows, hidden}, 1);
          Tensor positions = Tensor::random(dtype, {kIdsInSequence + 2, hidden}, 2);
          Tensor y(dtype, {kTokenIds, hidden});
          Tensor expected(dtype, {kTokenIds, hidden});
          EmbeddingArgs args = {.ids = ids.view(),
                                .table = table.view(),
                                .sequence = kIdsInSequence,
                                .first_position = 2,
                                .y = y.view()};
          if (learned) args.positions = positions.view();

          embedding(compute, args);
          args.y = expected.view();
          reference::embedding(args);

          expect_same_bits(y.view(), expected.view());
        }
      }
    }
  });
}

TEST(Embedding, BackwardAddsInTokenOrder) {
  Tensor ids = repeating_ids();
  on_every_target([&](Compute& compute) {
    for (DType dtype : {DType::F32, DType::BF16}) {
      for (std::int64_t hidden : {1, 65, 768}) {
        Tensor dy = Tensor::random(dtype, {kTokenIds, hidden}, 3);
        Tensor dtable = Tensor::random(DType::F32, {kTableRows, hidden}, 4);
        Tensor dpositions = Tensor::random(DType::F32, {kIdsInSequence + 2, hidden}, 5);
        Tensor expected_table = dtable;
        Tensor expected_positions = dpositions;

        embedding_backward(compute, ids.view(), dy.view(), dtable.view());
        position_backward(compute, dy.view(), kIdsInSequence, dpositions.view());
        reference::embedding_backward(ids.view(), dy.view(), expected_table.view());
        reference::position_backward(dy.view(), kIdsInSequence, expected_positions.view());

        expect_same_bits(dtable.view(), expected_table.view());
        expect_same_bits(dpositions.view(), expected_positions.view());
      }
    }
  });
}

TEST(Embedding, AStillRowGetsNoGradient) {
  Tensor ids = repeating_ids();
  const VocabRows rows{.still = ids.view().as<std::int32_t>()[1]};
  on_every_target([&](Compute& compute) {
    for (DType dtype : {DType::F32, DType::BF16}) {
      Tensor dy = Tensor::random(dtype, {kTokenIds, 65}, 3);
      Tensor dtable = Tensor::random(DType::F32, {kTableRows, 65}, 4);
      Tensor before = dtable;
      Tensor expected = dtable;

      embedding_backward(compute, ids.view(), dy.view(), dtable.view(), rows);
      reference::embedding_backward(ids.view(), dy.view(), expected.view(), 1, rows.still);

      expect_same_bits(dtable.view(), expected.view());
      expect_same_bits(dtable.view().slice(0, rows.still, 1),
                       before.view().slice(0, rows.still, 1));
    }
  });
}

TEST(Embedding, RowsMayBeScaled) {
  Tensor ids = repeating_ids();
  on_every_target([&](Compute& compute) {
    for (DType dtype : {DType::F32, DType::BF16}) {
      for (std::int64_t hidden : {1, 65, 768}) {
        const VocabRows rows{.scale = 1.7f};
        Tensor table = Tensor::random(dtype, {kTableRows, hidden}, 1);
        Tensor dy = Tensor::random(dtype, {kTokenIds, hidden}, 3);
        Tensor y(dtype, {kTokenIds, hidden}), expected = y;
        Tensor dtable = Tensor::random(DType::F32, {kTableRows, hidden}, 4);
        Tensor expected_table = dtable;

        embedding(compute, {.ids = ids.view(), .table = table.view(), .rows = rows, .y = y.view()});
        reference::embedding(
            {.ids = ids.view(), .table = table.view(), .rows = rows, .y = expected.view()});
        embedding_backward(compute, ids.view(), dy.view(), dtable.view(), rows);
        reference::embedding_backward(ids.view(), dy.view(), expected_table.view(), rows.scale);

        expect_same_bits(y.view(), expected.view());
        expect_same_bits(dtable.view(), expected_table.view());
      }
    }
  });
}

// Embedding is linear in its tables, so ⟨dy, y⟩ = ⟨dtable, table⟩ + ⟨dpositions, positions⟩.
TEST(Embedding, BackwardIsTheAdjointOfForward) {
  Compute compute(2);
  Tensor ids = repeating_ids();
  Tensor table = Tensor::random(DType::F32, {kTableRows, 40}, 1);
  Tensor positions = Tensor::random(DType::F32, {kIdsInSequence, 40}, 2);
  Tensor dy = Tensor::random(DType::F32, {kTokenIds, 40}, 3);
  Tensor y(DType::F32, {kTokenIds, 40});
  Tensor dtable(DType::F32, {kTableRows, 40});
  Tensor dpositions(DType::F32, {kIdsInSequence, 40});

  embedding(compute, {.ids = ids.view(),
                      .table = table.view(),
                      .positions = positions.view(),
                      .sequence = kIdsInSequence,
                      .y = y.view()});
  embedding_backward(compute, ids.view(), dy.view(), dtable.view());
  position_backward(compute, dy.view(), kIdsInSequence, dpositions.view());

  // Sums of at most 8 gradients below 1 per entry, and 1440 products of them with numbers below 2.
  EXPECT_NEAR(dot(dy, y), dot(dtable, table) + dot(dpositions, positions), 1440 * 2 * 8 * kRound);
}

TEST(Embedding, RefusesAnIdOutsideTheVocabulary) {
  Compute compute(1);
  Tensor ids(DType::I32, {1});
  ids.view().as<std::int32_t>()[0] = kTableRows;
  Tensor table(DType::F32, {kTableRows, 4});
  Tensor y(DType::F32, {1, 4});

  EXPECT_THROW(embedding(compute, {.ids = ids.view(), .table = table.view(), .y = y.view()}),
               InternalError);
}

}  // namespace
}  // namespace cleave::ops
