// What replicas share (ZeRO) and what F keeps (recompute), in bytes: of memory and on the way.

#include <algorithm>

#include "engine/run/unpadded_model.h"
#include <gtest/gtest.h>

#include "cleave/engine/compile/compile.h"
#include "cleave/model/family.h"
#include "cleave/parallel/same_order.h"

namespace cleave::engine {
namespace {

using schedule::BufferKind;
using schedule::Recompute;
using testing::unpadded_model;

constexpr int kReplicas = 4;

CompiledStep compiled(int zero, int microbatches = 1, const std::string& schedule = "1f1b") {
  return compile(unpadded_model(),
                 {.layout = {.data = kReplicas, .schedule = schedule, .zero = zero},
                  .microbatches = microbatches});
}

/// Weights, gradients and optimizer state at STEP.
double state_bytes(const CompiledStep& step) {
  double bytes = 0;
  for (const schedule::Buffer& b : step.program.buffers) {
    const bool of_state = b.kind <= BufferKind::Optimizer || b.kind == BufferKind::Share;
    if (b.device == 0 && of_state) bytes += static_cast<double>(b.bytes);
  }
  return bytes;
}

TEST(Sharing, TakesTheBytesThatZeroPromises) {
  const auto psi = static_cast<double>(parameter_count(unpadded_model()));
  const double n = kReplicas;
  const double promised[] = {18 * psi, 6 * psi + 12 * psi / n, 2 * psi + 16 * psi / n,
                             18 * psi / n};
  // A share is cut at blocks of 4096 elements: at most one more than an equal one, per segment.
  const double slack = 18.0 * 4096 * static_cast<double>(unpadded_model().segments.size());
  for (int zero = 0; zero <= 3; ++zero) {
    EXPECT_NEAR(state_bytes(compiled(zero)), promised[zero], zero == 0 ? 0 : slack) << zero;
    EXPECT_LT(slack, 0.2 * promised[zero]);
  }
}

// A share of its own where that takes less; else it stays in the sum, as without sharing.
TEST(Sharing, OfGradientsGivesTheWholeOnesBackWhereThatTakesLess) {
  const auto apart = [](const CompiledStep& step) {
    return std::ranges::count(step.program.buffers, BufferKind::Share, &schedule::Buffer::kind) > 0;
  };
  EXPECT_TRUE(apart(compiled(2)));
  EXPECT_TRUE(apart(compiled(2, 4, "gpipe")));
}

std::vector<std::pair<std::int64_t, std::int64_t>> lasting(const schedule::Program& program) {
  std::vector<std::pair<std::int64_t, std::int64_t>> places;
  for (const schedule::Buffer& b : program.buffers) {
    const bool lasts = b.kind <= BufferKind::Optimizer || b.kind == BufferKind::Scratch;
    if (lasts) places.emplace_back(b.offset, b.bytes);
  }
  return places;
}

TEST(Sharing, LeavesWhatLastsInItsPlaceWhileEvaluating) {
  int apart = 0, in_place = 0;
  for (int zero = 0; zero <= 3; ++zero) {
    for (const int microbatches : {1, 2, 5}) {
      for (const int replicas : {2, 4}) {
        const CompiledStep step =
            compile(unpadded_model(),
                    {.layout = {.data = replicas, .zero = zero}, .microbatches = microbatches});
        EXPECT_EQ(lasting(step.evaluation), lasting(step.program)) << zero << ' ' << microbatches;
        if (zero < 2) continue;
        const auto& buffers = step.program.buffers;
        const bool shares = std::ranges::count(buffers, BufferKind::Share, &schedule::Buffer::kind);
        ++(shares ? apart : in_place);
      }
    }
  }
  EXPECT_GT(apart, 0);
  EXPECT_GT(in_place, 0);
}

TEST(Sharing, KeepsAtMostTwoSegmentsWhole) {
  const CompiledStep step = compiled(3, 3);
  for (std::size_t at = 0; at < step.program.lists[0].size(); ++at) {
    int alive = 0;
    for (const schedule::Buffer& b : step.program.buffers) {
      alive += b.device == 0 && b.kind == BufferKind::Gathered && b.first <= static_cast<int>(at) &&
               static_cast<int>(at) < b.last;
    }
    EXPECT_LE(alive, 2) << "at instruction " << at;
  }
}

std::int64_t sent(const CompiledStep& step, std::int64_t comm::Sent::*kind) {
  std::int64_t bytes = 0;
  for (const comm::Sent& device : step.traffic) bytes += device.*kind;
  return bytes;
}

// Over all N devices: Ψ(N − 1) elements for a sum that leaves shares or for making values whole.
TEST(Sharing, SendsTheKnownVolumes) {
  const std::int64_t once = parameter_count(unpadded_model()) * (kReplicas - 1);
  EXPECT_EQ(sent(compiled(0), &comm::Sent::reduce), 2 * once * 4);
  for (const int zero : {1, 2}) {
    EXPECT_EQ(sent(compiled(zero), &comm::Sent::reduce), once * 4);
    EXPECT_EQ(sent(compiled(zero), &comm::Sent::gather), once * 2);
  }
}

// A segment that is needed again at once stays: in the middle of F and B, the head and the last
// block are gathered once.
TEST(Sharing, GathersForEveryUseOrOncePerPass) {
  const auto gathers = [](const CompiledStep& step) {
    std::int64_t elements = 0;
    for (const schedule::Instruction& i : step.program.lists[0]) {
      if (i.op == schedule::Op::Gather)
        elements += parameter_count(step.stages[i.stage][std::max(i.segment, 0)]);
    }
    return elements;
  };
  const std::int64_t psi = parameter_count(unpadded_model());
  for (const int microbatches : {1, 3}) {
    const CompiledStep step = compiled(3, microbatches);
    EXPECT_EQ(sent(step, &comm::Sent::gather), gathers(step) * (kReplicas - 1) * 2);
    EXPECT_EQ(sent(step, &comm::Sent::reduce), psi * (kReplicas - 1) * 4);
    EXPECT_LE(gathers(step), 2 * microbatches * psi);
  }
  const CompiledStep looped =
      compile(unpadded_model(),
              {.layout = {.data = kReplicas, .chunks = 6, .schedule = "looped-bfs", .zero = 3},
               .microbatches = 3});
  EXPECT_LE(gathers(looped), 2 * psi);
}

/// Bytes that a block keeps of one microbatch from F on, per token and hidden unit.
double kept_by_forward(const model::Family* kind, Recompute recompute) {
  const CompiledStep step =
      compile(unpadded_model(kind), {.layout = {.recompute = {recompute}}, .microbatches = 1});
  double bytes = 0;
  for (std::size_t s = 1; s + 1 < step.memory[0].segments.size(); ++s) {
    const plan::SegmentMemory& m = step.memory[0].segments[s];
    bytes += static_cast<double>(m.x);
    if (!m.keeps_inputs_only) bytes += static_cast<double>(m.kept_for_input + m.kept_for_weight);
  }
  return bytes / (4 * 32 * 128);
}

// Korthikanti et al. 2022 count 34 + 5as/h bytes per token and hidden unit without recompute, 34
// with selective, 2 with full. We have no dropout (its masks are 2 of the 34) and never keep the
// products of attention (5as/h): 32 + 4·(statistics), of which selective drops norms and GELU.
TEST(Recompute, KeepsWhatTheFormulasSay) {
  const double statistics = (2 * 2 * 4 + 4 * 4) / 128.0;  // mean, rstd of two norms; lse of 4 heads
  EXPECT_DOUBLE_EQ(kept_by_forward(&model::gpt, Recompute::None), 32 + statistics);
  EXPECT_DOUBLE_EQ(kept_by_forward(&model::gpt, Recompute::Selective), 20 + statistics);
  EXPECT_DOUBLE_EQ(kept_by_forward(&model::gpt, Recompute::Full), 2);
}

TEST(Sharing, GathersNoWeightsForWAndSaysSo) {
  const Graph whole = unpadded_model();
  const Graph blocks = unpadded_model(&model::gpt, 4, 2);
  const Layout layout{.data = 2, .schedule = "zb-h1", .zero = 3};
  EXPECT_NO_THROW(compile(whole, {.layout = layout}));
  EXPECT_THROW(compile(blocks, {.layout = layout}), UserError);
}

// Each mutant would leave a device waiting for ever in a sum that the others do not join.
TEST(TensorGroups, MeetInTheSameOrder) {
  using Shares = std::vector<Graph>;
  const Shares sound =
      compile(unpadded_model(), {.layout = {.tensor = 2, .sequence_parallel = true}}).shares;
  EXPECT_NO_THROW(parallel::check_same_order(sound));
  const std::vector<void (*)(Shares&)> mutants = {
      [](Shares& shares) { shares[1].segments.pop_back(); },
      [](Shares& shares) { shares[1].segments[2].layers.pop_back(); },
      [](Shares& shares) {
        auto& layers = shares[1].segments[1].layers;
        std::swap(layers[0], layers[1]);
      },
      [](Shares& shares) {
        LayerSpec& layer = shares[1].segments[0].layers[0];
        ShardedAttributes attributes = layer.as<ShardedAttributes>();
        attributes.axis.own_tokens = 1;
        layer.attributes = attributes;
      },
  };
  for (const auto& mutate : mutants) {
    Shares shares = sound;
    mutate(shares);
    EXPECT_THROW(parallel::check_same_order(shares), InternalError);
  }
}

TEST(Sharing, NeedsReplicas) {
  EXPECT_THROW(compile(unpadded_model(), {.layout = {.zero = 1}}), UserError);
}

/// A GPT whose weights are few, so that anything added to them shows.
std::vector<std::int64_t> bytes_of_small_gpt(bool tied, const Layout& layout) {
  const ModelShape shape{.kind = &model::gpt,
                         .layers = 4,
                         .hidden = 32,
                         .heads = 4,
                         .kv_heads = 4,
                         .ffn = 128,
                         .vocab = 256,
                         .context = 16,
                         .tie_embeddings = tied};
  return compile(model::graph_of(shape, {.sequences = 1, .sequence = 16, .dtype = DType::F32}),
                 {.layout = layout, .microbatches = 4})
      .planned_bytes;
}

TEST(TiedWeights, LeaveEveryDeviceOfAPipelineLessThanOneDeviceHas) {
  const std::int64_t alone = bytes_of_small_gpt(true, {})[0];
  for (const int pipeline : {2, 3, 4}) {
    for (const std::int64_t bytes : bytes_of_small_gpt(true, {.pipeline = pipeline}))
      EXPECT_LT(bytes, alone) << pipeline;
  }
}

TEST(TiedWeights, TakeWorkspaceOnlyWhereTheyAreExchanged) {
  const auto tied = bytes_of_small_gpt(true, {.pipeline = 4});
  const auto untied = bytes_of_small_gpt(false, {.pipeline = 4});
  for (const std::size_t middle : {1, 2}) EXPECT_EQ(tied[middle], untied[middle]);

  const Layout chunks{.chunks = 2, .schedule = "interleaved"};
  EXPECT_LT(bytes_of_small_gpt(true, chunks)[0], bytes_of_small_gpt(false, chunks)[0]);
}

}  // namespace
}  // namespace cleave::engine
