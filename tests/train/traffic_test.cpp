// What the transport counts is what the plan says, to the byte and by kind, on every device; and
// the plan says what is known of each kind of parallelism.

#include "cleave/parallel/traffic.h"

#include "support/tiny_model.h"
#include <gtest/gtest.h>

#include "cleave/comm/local/local_world.h"
#include "cleave/engine/compile/compile.h"
#include "cleave/engine/run/device.h"
#include "cleave/train/step/run_optimizer.h"

namespace cleave::train {
namespace {

using schedule::Recompute;
using testing::ReplicaSource;
using testing::tiny_model;

constexpr int kMicrobatchesPerReplica = 2;  // per replica

std::string text_of(const engine::Layout& layout) {
  const int recompute = layout.recompute.empty() ? 0 : static_cast<int>(layout.recompute[0]);
  return detail::concat("tensor ", layout.tensor, ", sequence parallel ", layout.sequence_parallel,
                        ", data ", layout.data, ", zero ", layout.zero, ", pipeline ",
                        layout.pipeline, ", recompute ", recompute, ", ", layout.schedule);
}

std::string text_of(const comm::Sent& sent) {
  return detail::concat(sent.message, " of messages, ", sent.reduce, " of sums, ", sent.gather,
                        " gathered, ", sent.numbers, " of numbers");
}

/// What the collectives of a step sent, by what the device recorded of each.
comm::Sent sent_by(const std::vector<plan::CollectiveSpan>& exchanges) {
  comm::Sent sent;
  for (const plan::CollectiveSpan& exchange : exchanges) {
    const bool gathers = exchange.kind == CollectiveKind::AllGather;
    (gathers ? sent.gather : sent.reduce) += exchange.bytes;
  }
  return sent;
}

/// Runs a step and compares what every device sent.
void expect_as_planned(const Graph& model, const engine::Layout& layout, int tensor_shards) {
  SCOPED_TRACE(text_of(layout));
  const engine::CompiledStep step = engine::compile(model, {.layout = layout,
                                                            .microbatches = kMicrobatchesPerReplica,
                                                            .data_shards = 2 * layout.data,
                                                            .tensor_shards = tensor_shards});
  std::vector<comm::Sent> sent(static_cast<std::size_t>(step.devices()));
  comm::run_devices(step.devices(), [&](comm::Communicator& world) {
    engine::Device device(step, world.rank(), 1, world);
    device.initialise(7);
    RunOptimizer optimizer({.steps = 2, .lr = 1e-2, .warmup = 0});
    optimizer.begin_step(0);
    ReplicaSource source(step.replica_of(world.rank()) * kMicrobatchesPerReplica, 0);
    const comm::Sent before = world.sent();
    device.executor().run({.source = &source, .optimizer = &optimizer, .loss_scale = 1.0f / 32});
    comm::Sent& mine = sent[static_cast<std::size_t>(world.rank())];
    mine = world.sent() - before;
    EXPECT_EQ(text_of(sent_by(device.executor().exchanges())),
              text_of({.reduce = mine.reduce, .gather = mine.gather}));
  });
  for (int d = 0; d < step.devices(); ++d)
    EXPECT_EQ(text_of(sent[d]), text_of(step.traffic[d])) << "device " << d;
}

class Traffic : public ::testing::TestWithParam<std::tuple<const model::Family*, DType>> {};

TEST_P(Traffic, IsAsPlannedInEveryCombination) {
  const auto [kind, dtype] = GetParam();
  const Graph model = tiny_model(kind, dtype, 3);
  const char* const schedules[] = {"1f1b", "zb-h1", "looped-bfs", "zbv"};
  std::size_t next = 0;
  for (const int tensor : {1, 2, 4})
    for (const bool sequence_parallel : {false, true})
      for (const int data : {1, 2})
        for (int zero = 0; zero <= (data > 1 ? 3 : 0); ++zero)
          for (const int pipeline : {1, 2})
            for (const auto& recompute :
                 {std::vector<Recompute>{}, {Recompute::Full}, {Recompute::Selective}}) {
              if (sequence_parallel && tensor == 1) continue;
              const char* const schedule = schedules[next++ % (pipeline == 1 ? 3 : 4)];
              expect_as_planned(model,
                                {.pipeline = pipeline,
                                 .data = data,
                                 .tensor = tensor,
                                 .sequence_parallel = sequence_parallel,
                                 .schedule = schedule,
                                 .zero = zero,
                                 .recompute = recompute},
                                tensor == 1 ? 1 : 4);
            }
}

INSTANTIATE_TEST_SUITE_P(Models, Traffic,
                         ::testing::Values(std::tuple(&model::gpt, DType::BF16),
                                           std::tuple(&model::llama, DType::F32)));

/// Elements that all devices together send over the tensor axis for block 0 and one microbatch.
std::int64_t block_elements(const engine::Layout& layout,
                            comm::Sent parallel::TensorTraffic::*pass) {
  const engine::CompiledStep step =
      engine::compile(tiny_model(&model::gpt, DType::BF16), {.layout = layout});
  std::int64_t bytes = 0;
  for (const Graph& share : step.shares) {
    for (const LayerSpec& layer : share.segments[1].layers)
      bytes += (parallel::tensor_traffic(layer).*pass).total();
  }
  return bytes / size_of(DType::BF16);
}

// 8bsh(t-1)/t elements per block, microbatch and device; with sequence parallelism x is gathered
// again for W, which makes 10. Over all t devices: what one sends more than another evens out.
TEST(TrafficOfABlock, IsTheKnownVolume) {
  using parallel::TensorTraffic;
  for (const int tensor : {2, 4}) {
    const std::int64_t bsh = testing::kSequence * 32 * (tensor - 1);
    for (const bool sequence_parallel : {false, true}) {
      const engine::Layout layout{.tensor = tensor, .sequence_parallel = sequence_parallel};
      EXPECT_EQ(block_elements(layout, &TensorTraffic::forward), 4 * bsh);
      EXPECT_EQ(block_elements(layout, &TensorTraffic::input), 4 * bsh);
      EXPECT_EQ(block_elements(layout, &TensorTraffic::weight), sequence_parallel ? 2 * bsh : 0);
    }
  }
}

// Recompute adds what F of the layers sends that it runs again: all of them, or none.
TEST(TrafficOfABlock, GrowsByWhatIsComputedAgain) {
  const auto sent = [](const std::vector<Recompute>& recompute) {
    const engine::CompiledStep step =
        engine::compile(tiny_model(&model::gpt, DType::BF16),
                        {.layout = {.tensor = 2, .recompute = recompute}, .microbatches = 3});
    std::int64_t bytes = 0;
    for (const comm::Sent& device : step.traffic) bytes += device.total();
    return bytes;
  };
  const std::int64_t none = sent({});
  const std::int64_t forward =
      block_elements({.tensor = 2}, &parallel::TensorTraffic::forward) * size_of(DType::BF16);
  EXPECT_EQ(sent({Recompute::Full}) - none, 3 * 6 * forward);
  EXPECT_EQ(sent({Recompute::Selective}), none);
}

}  // namespace
}  // namespace cleave::train
