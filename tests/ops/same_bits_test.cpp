// Every op on every instruction set that promises equal bits, against hashes that every machine
// must reproduce.
#include <fstream>
#include <map>
#include <sstream>
#include <string>

#include "ops/every_target.h"
#include "ops/tensor.h"
#include "support/paths.h"
#include <gtest/gtest.h>

#include "cleave/base/hash.h"
#include "cleave/ops/activation.h"
#include "cleave/ops/adamw.h"
#include "cleave/ops/attention.h"
#include "cleave/ops/cross_entropy.h"
#include "cleave/ops/matmul.h"
#include "cleave/ops/norm.h"
#include "cleave/ops/reduce.h"
#include "cleave/ops/rope.h"
#include "cleave/spec/kernel_scratch.h"
#include "cleave/spec/rope_spec.h"

namespace cleave::ops {
namespace {

using namespace cleave::testing;

/// Hashes of results by "op dtype".
using Bits = std::map<std::string, std::string>;

std::string hash_of_tensors(std::initializer_list<Tensor*> tensors) {
  Hasher hasher;
  for (Tensor* tensor : tensors) {
    const View view = tensor->view();
    hasher.add({view.bytes(), static_cast<std::size_t>(view.byte_count())});
  }
  return to_hex(hasher.digest());
}

constexpr std::int64_t kTokens = 70;
constexpr std::int64_t kHidden = 203;

struct Ops {
  Compute& compute;
  DType dtype;
  Bits& bits;

  Tensor make(Shape shape, std::uint32_t seed) const { return Tensor::random(dtype, shape, seed); }
  void put(const std::string& op, std::initializer_list<Tensor*> tensors) const {
    bits[op + " " + std::string(to_string(dtype))] = hash_of_tensors(tensors);
  }

  void activations() const {
    Tensor x = make({kTokens, 2 * kHidden}, 1);
    Tensor y(dtype, {kTokens, 2 * kHidden}), dx(dtype, {kTokens, 2 * kHidden});
    gelu(compute, x.view(), y.view());
    gelu_backward(compute, x.view(), y.view(), dx.view());
    put("gelu", {&y, &dx});
    Tensor narrow(dtype, {kTokens, kHidden});
    swiglu(compute, x.view(), narrow.view());
    swiglu_backward(compute, x.view(), narrow.view(), dx.view());
    put("swiglu", {&narrow, &dx});
  }

  void norms() const {
    Tensor x = make({kTokens, kHidden}, 1), dy = make({kTokens, kHidden}, 2);
    Tensor weight = make({kHidden}, 3), y(dtype, {kTokens, kHidden}), dx = y;
    Tensor mean(DType::F32, {kTokens}), rstd = mean;
    Tensor dweight(DType::F32, {kHidden}), dbias = dweight;
    Scratch scratch(layernorm_backward_scratch_bytes(kTokens, kHidden));
    compute.set_scratch(scratch.bytes());
    rmsnorm(compute, {.x = x.view(), .weight = weight.view(), .y = y.view(), .rstd = rstd.view()});
    rmsnorm_backward(compute, {.dy = dy.view(),
                               .x = x.view(),
                               .weight = weight.view(),
                               .rstd = rstd.view(),
                               .dx = dx.view(),
                               .dweight = dweight.view()});
    put("rmsnorm", {&y, &rstd, &dx, &dweight});
    layernorm(compute, {.x = x.view(),
                        .weight = weight.view(),
                        .bias = weight.view(),
                        .y = y.view(),
                        .mean = mean.view(),
                        .rstd = rstd.view()});
    layernorm_backward(compute, {.dy = dy.view(),
                                 .x = x.view(),
                                 .weight = weight.view(),
                                 .mean = mean.view(),
                                 .rstd = rstd.view(),
                                 .dx = dx.view(),
                                 .dweight = dweight.view(),
                                 .dbias = dbias.view()});
    put("layernorm", {&y, &mean, &rstd, &dx, &dweight, &dbias});
  }

  void attend() const {
    const AttentionShape shape{2, 150, 4, 2, 40};
    const Shape wide{shape.tokens(), shape.heads, shape.head_dim};
    const Shape few{shape.tokens(), shape.kv_heads, shape.head_dim};
    Tensor q = make(wide, 1), k = make(few, 2), v = make(few, 3), dout = make(wide, 4);
    Tensor out(dtype, wide), dq = out, dk(dtype, few), dv = dk;
    Tensor lse(DType::F32, {shape.sequences, shape.heads, shape.sequence});
    Scratch scratch(attention_scratch_bytes(compute, shape, dtype));
    compute.set_scratch(scratch.bytes());
    attention(compute, shape, q.view(), k.view(), v.view(), out.view(), lse.view());
    attention_backward(compute, shape,
                       {q.view(), k.view(), v.view(), out.view(), lse.view(), dout.view(),
                        dq.view(), dk.view(), dv.view()});
    put("attention", {&out, &lse, &dq, &dk, &dv});
    Tensor row(dtype, {shape.heads, shape.head_dim});
    const ConstView first(q.view().bytes(), dtype, {shape.heads, shape.head_dim});
    attention_decode(compute, shape, {first, k.view(), v.view(), row.view()});
    put("decode", {&row});
  }

  void multiply() const {
    Tensor a = make({70, 1700}, 1), b = make({1700, 100}, 2), bias = make({100}, 3);
    Tensor out = make({70, 100}, 4);
    const MatmulOptions options{.write = Write::Accumulate, .bias = bias.view()};
    Scratch scratch(
        matmul_scratch_bytes(compute, describe(a.view(), b.view(), out.view(), options)));
    compute.set_scratch(scratch.bytes());
    matmul(compute, a.view(), b.view(), out.view(), options);
    put("matmul", {&out});
  }

  void lose() const {
    Tensor logits = make({kTokens, 1009}, 1);
    Tensor targets(DType::I32, {kTokens});
    for (std::int32_t t = 0; t < kTokens; ++t) targets.view().as<std::int32_t>()[t] = t * 11 % 1009;
    Tensor losses(DType::F32, {kTokens}), lse = losses;
    Tensor max = losses, sum = losses, target = losses;
    Tensor max2 = losses, sum2 = losses, target2 = losses;
    const SoftmaxState left{max.view(), sum.view(), target.view()};
    const SoftmaxState right{max2.view(), sum2.view(), target2.view()};
    const View all = logits.view();
    cross_entropy_partial(compute, {all.slice(1, 0, 500), 0}, targets.view(), left,
                          Write::Overwrite);
    cross_entropy_partial(compute, {all.slice(1, 500, 509), 500}, targets.view(), right,
                          Write::Overwrite);
    cross_entropy_merge(compute, right, left);
    cross_entropy_finish(compute, left, targets.view(), losses.view(), lse.view());
    cross_entropy_backward(compute, {all, 0}, targets.view(), lse.view(), 0.125f);
    put("cross_entropy", {&losses, &lse, &logits});
  }

  void rotate() const {
    Tensor x = make({kTokens, 3, 64}, 1);
    Tensor cos(DType::F32, {kTokens, 32}), sin = cos;
    fill_rope_tables(rope_frequencies(10000, 64), 1, cos.view(), sin.view());
    rope(compute, {.x = x.view(), .cos = cos.view(), .sin = sin.view(), .sequence = kTokens});
    put("rope", {&x, &cos, &sin});
  }

  void update() const {
    Tensor master = Tensor::random(DType::F32, {9001}, 1),
           m = Tensor::random(DType::F32, {9001}, 2);
    Tensor gradient = Tensor::random(DType::F32, {9001}, 3), v(DType::F32, {9001});
    Tensor copy(DType::BF16, {9001});
    adamw(compute,
          {.master = master.view(),
           .m = m.view(),
           .v = v.view(),
           .gradient = gradient.view(),
           .copy = copy.view()},
          {.lr = 0.01, .weight_decay = 0.1, .bias_correction1 = 0.3, .gradient_scale = 0.7});
    put("adamw", {&master, &m, &v, &copy});
  }

  void reduce() const {
    Tensor a = make({kTokens, kHidden}, 1), sums(DType::F32, {kHidden});
    add_column_sums(compute, a.view(), sums.view());
    Tensor wide = Tensor::random(DType::F32, {9001}, 2);
    double blocks[3];
    sum_of_squares(compute, wide.view(), blocks);
    Tensor squares(DType::F32, {6});
    std::memcpy(squares.view().bytes(), blocks, sizeof blocks);
    put("sums", {&sums, &squares});
  }
};

Bits bits_of(Compute& compute) {
  Bits bits;
  for (DType dtype : {DType::F32, DType::BF16}) {
    const Ops ops{compute, dtype, bits};
    ops.activations();
    ops.norms();
    ops.attend();
    ops.multiply();
    ops.lose();
    ops.rotate();
    ops.update();
    ops.reduce();
  }
  return bits;
}

Bits golden() {
  std::ifstream file(source_path("tests/golden/op_bits.txt"));
  Bits bits;
  for (std::string op, dtype, hash; file >> op >> dtype >> hash;) bits[op + " " + dtype] = hash;
  return bits;
}

std::string text_of(const Bits& bits) {
  std::ostringstream text;
  for (const auto& [op, hash] : bits) text << op << " " << hash << "\n";
  return text.str();
}

// Where an op is meant to change, its line in tests/golden/op_bits.txt changes to what this prints.
TEST(SameBits, OfEveryOpOnEveryInstructionSetWithFusedMultiplyAdd) {
  const std::string expected = text_of(golden());
  on_exact_targets([&](Compute& compute) { EXPECT_EQ(text_of(bits_of(compute)), expected); });
}

}  // namespace
}  // namespace cleave::ops
