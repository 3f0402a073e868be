#include "cleave/plan/memory/stage_layout.h"

#include <gtest/gtest.h>

#include "cleave/model/family.h"

namespace cleave::plan {
namespace {

constexpr std::int64_t kHidden = 64;
constexpr std::int64_t kFfn = 256;
constexpr std::int64_t kTokens = 32;

Graph tiny(DType dtype) {
  const ModelShape shape{.kind = &model::gpt,
                         .layers = 4,
                         .hidden = kHidden,
                         .heads = 4,
                         .kv_heads = 4,
                         .ffn = kFfn,
                         .vocab = 256,
                         .context = 32};
  return model::graph_of(shape, {.sequences = 2, .sequence = 16, .dtype = dtype});
}

std::span<const SegmentSpec> one_block(const Graph& model) {
  return std::span(model.segments).subspan(1, 1);
}

// What a GPT block keeps per token, in units of the hidden size:
//   for I: the attention's q, k, v (3), its output is the next product's x, the block's r (1),
//   gelu's x (4); for W: the x of its four products: ln_1's y (1), attention's y (1), ln_2's y (1),
//   gelu's y (4).
// The block's own x arrives as a message. Statistics: 2 per norm and 1 per head, f32.
TEST(StageLayout, KeepsWhatTheDerivationSays) {
  const Graph model = tiny(DType::BF16);
  const StageLayout layout = layout_stage(one_block(model), kWithin);
  const std::int64_t unit = kTokens * kHidden * 2;
  EXPECT_EQ(layout.bytes_of(Region::KeptForInput),
            8 * unit + kTokens * 4 * (2 + 2) + kTokens * 4 * 4);
  EXPECT_EQ(layout.bytes_of(Region::KeptForWeight), 7 * unit);
  EXPECT_EQ(layout.bytes_of(Region::Input), unit);
  EXPECT_EQ(layout.input_until, Until::Input);
  // I keeps the dy of the products: qkv (3), r's gradient (1), gelu's (4); dy itself arrived as a
  // message. And four sums of the norms.
  EXPECT_EQ(layout.bytes_of(Region::InputKept), 8 * unit + 4 * kHidden * 4);
  EXPECT_EQ(layout.gradient_until, Until::Weight);
}

// At its widest, B holds gelu's dy and dx (4 + 4) and, between blocks, the gradient of the residual
// stream (1), however many blocks the stage has. That of its last block arrives as a message.
TEST(StageLayout, FusedBackwardNeedsNoMoreForMoreBlocks) {
  const Graph model = tiny(DType::F32);
  for (int blocks : {1, 4}) {
    const StageLayout layout = layout_stage(std::span(model.segments).subspan(1, blocks), kWithin);
    EXPECT_EQ(layout.fused_work, (blocks == 1 ? 8 : 9) * kTokens * kHidden * 4);
  }
}

}  // namespace
}  // namespace cleave::plan
