#include "cleave/layers/loss.h"

#include <algorithm>

#include "cleave/ops/cross_entropy.h"
#include "cleave/ops/matmul.h"
#include "cleave/ops/scratch_claim.h"

namespace cleave {
namespace {

// Indices into what the spec declares (spec/layers.cpp).
constexpr int kTargets = 0;  // of what it reads
constexpr int kLse = 0;      // of what it keeps
constexpr int kLogits = 1;

}  // namespace

struct Loss::Block {
  ops::VocabBlock logits;
  ConstView weight;  ///< its rows of w
};

std::int64_t Loss::scratch_bytes(ops::Compute& compute) const {
  // Blocks of logits stay in scratch while the products run.
  return spec().scratch + product_scratch_bytes(compute);
}

template <class Visit>
void Loss::for_each_block(ops::Compute& compute, const LayerCall& call, Visit&& visit) {
  const auto& attributes = spec().as<LossAttributes>();
  const std::int64_t vocabulary = attributes.vocabulary;
  const std::int64_t size = (vocabulary + attributes.blocks - 1) / attributes.blocks;
  const DType dtype = call.x.dtype();
  const std::int64_t stride = spec().forward[0].out_stride;
  const Shape padded{call.x.size(0), stride};
  const bool kept = attributes.blocks == 1;

  const ops::ScratchClaim claim(compute, kept ? 0 : padded.elements() * size_of(dtype));
  const View room = kept ? call.kept_by_forward[kLogits] : View(claim.data(), dtype, padded);
  for (std::int64_t first = 0; first < vocabulary; first += size) {
    const std::int64_t columns = std::min(size, vocabulary - first);
    const Block block{{room.slice(1, 0, columns), first},
                      parameter(0).value.slice(0, first, columns)};
    visit(block, first == 0 ? Write::Overwrite : Write::Accumulate);
  }
}

void Loss::forward(ops::Compute& compute, const LayerCall& call) {
  const View targets = call.reads[kTargets];
  const View lse = call.kept_by_forward[kLse];
  const std::int64_t tokens = call.x.size(0);
  // Running maximum and sum; the third number, the target's logit, waits in the place of the loss.
  const std::int64_t bytes = aligned(tokens * size_of(DType::F32));
  const bool kept = spec().as<LossAttributes>().blocks == 1;
  const ops::ScratchClaim claim(compute, kept ? 0 : 2 * bytes);
  const auto column = [&](int index) {
    return View(claim.data() + index * bytes, DType::F32, {tokens});
  };

  for_each_block(compute, call, [&](const Block& block, Write write) {
    ops::matmul(compute, call.x, block.weight.transposed(), block.logits.logits);
    if (kept) {
      ops::cross_entropy(compute, block.logits.logits, targets, call.y, lse);
    } else {
      ops::cross_entropy_partial(compute, block.logits, targets, {column(0), column(1), call.y},
                                 write);
    }
  });
  if (!kept) {
    ops::cross_entropy_finish(compute, {column(0), column(1), call.y}, targets, call.y, lse);
  }
}

void Loss::backward_input(ops::Compute& compute, const LayerCall& call) {
  const bool kept = spec().as<LossAttributes>().blocks == 1;
  for_each_block(compute, call, [&](const Block& block, Write write) {
    if (!kept) ops::matmul(compute, call.x, block.weight.transposed(), block.logits.logits);
    ops::cross_entropy_backward(compute, block.logits, call.reads[kTargets],
                                call.kept_by_forward[kLse], call.loss_scale);
    ops::matmul(compute, block.logits.logits, block.weight, call.dx, {.write = write});
  });
}

void Loss::backward_weight(ops::Compute& compute, const LayerCall& call) {
  const bool kept = spec().as<LossAttributes>().blocks == 1;
  for_each_block(compute, call, [&](const Block& block, Write) {
    if (!kept) {
      ops::matmul(compute, call.x, block.weight.transposed(), block.logits.logits);
      ops::cross_entropy_backward(compute, block.logits, call.reads[kTargets],
                                  call.kept_by_forward[kLse], call.loss_scale);
    }
    const View rows = gradient(0, call).slice(0, block.logits.first, block.logits.logits.size(1));
    ops::matmul(compute, ConstView(block.logits.logits).transposed(), call.x, rows,
                {.write = call.gradient});
  });
}

}  // namespace cleave
