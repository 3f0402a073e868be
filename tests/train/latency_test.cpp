// Links that take long: what a run does about them, and that it changes no bit; how much it helps
// is measured by bench/wire_rates.py.

#include <algorithm>
#include <chrono>
#include <mutex>
#include <string>
#include <vector>

#include "comm/tcp_devices.h"
#include "support/delaying_relay.h"
#include "train/auto_config.h"
#include <gtest/gtest.h>

#include "cleave/comm/early_bytes.h"
#include "cleave/comm/local/local_world.h"
#include "cleave/engine/measure/survey.h"
#include "cleave/engine/run/device.h"
#include "cleave/train/loop/forecast.h"
#include "cleave/train/step/random_source.h"
#include "cleave/train/step/run_optimizer.h"
#include "cleave/train/step/trainer.h"
#include "cleave/train/tune/auto_plan.h"
#include "cleave/train/tune/look_ahead.h"

namespace cleave::train {
namespace {

using testing::config_of;

constexpr std::chrono::milliseconds kDelay{20};

comm::LocalLauncher here;

// So few steps that no room is planned to save meanwhile, which a tight plan would give up first.
const std::string kEmulated =
    "steps = 10\n[parallel]\npipeline = 2\n[devices]\nemulate = \"f=10ms,i=10ms,w=10ms,link=";

double predicted(const Config& config) {
  return forecast(config, here).predicted.summary.makespan;
}

Config looking(Config config, std::int64_t receives, std::int64_t early) {
  config.parallel.receive_ahead = receives;
  config.parallel.early = early;
  return config;
}

// Eight microbatches. Device 1 has the first after the way of its credit, posted with the first
// instruction, and that of the message; it computes without a pause, and the last gradient takes a
// way and B: 40 + 40 + 8 * 30 + 40 + 20 = 380 ms. The plan may be 1 % slower.
TEST(Latency, IsHiddenByTheLeastLookAheadThatDoes) {
  const Config given = config_of(kEmulated + "40ms\"\n");
  const Config hidden = with_latency_hidden(given, here);

  EXPECT_GE(predicted(hidden), 0.380 - 1e-9);
  EXPECT_LE(predicted(hidden), 0.380 * 1.01);
  EXPECT_GE(predicted(looking(given, 1, 0)), 2 * 0.380);
  const std::int64_t receives = *hidden.parallel.receive_ahead, early = *hidden.parallel.early;
  EXPECT_GT(predicted(looking(given, receives - 1, early)), 1.01 * 0.380);
  EXPECT_GT(predicted(looking(given, receives, early - 1)), 1.01 * 0.380);
  EXPECT_NE(describe(hidden).find(" ahead, "), std::string::npos) << describe(hidden);
}

TEST(Latency, IsHiddenInAnOrderThatIsSearched) {
  Config given = config_of(kEmulated + "40ms\"\n");
  given.parallel.schedule = "auto";
  for (const std::int64_t chunks : {1, 2}) {
    given.parallel.chunks = chunks;
    EXPECT_GT(*with_latency_hidden(given, here).parallel.receive_ahead, 1) << chunks;
  }
}

TEST(Latency, IsLeftAloneWhereThereIsLittleOrWhereTheUserDecides) {
  for (const Config& config : {config_of(kEmulated + "0ms\"\n"), config_of(kEmulated + "500us\"\n"),
                               looking(config_of(kEmulated + "40ms\"\n"), 2, 0)})
    EXPECT_EQ(compile_options(with_latency_hidden(config, here)).layout,
              compile_options(config).layout);
}

// Half of the bytes that hiding everything would take on top.
TEST(Latency, IsHiddenAsFarAsMemoryAllows) {
  const auto with_memory = [](std::int64_t bytes) {
    return config_of(kEmulated + "40ms\"\nmemory = " + std::to_string(bytes) + "\n");
  };
  const auto needed = [](const Config& config) {
    return std::ranges::max(forecast(config, here).step.planned_bytes);
  };
  const Config roomy = with_latency_hidden(with_memory(1'000'000'000), here);
  const Config plain = looking(roomy, 1, 0);
  const Config tight = with_latency_hidden(with_memory((needed(plain) + needed(roomy)) / 2), here);

  EXPECT_TRUE(forecast(tight, here).fits);
  EXPECT_GT(predicted(tight), predicted(roomy));
  EXPECT_LT(predicted(tight), predicted(plain));
}

struct Outcome {
  std::string weights;
  bool as_planned = true;
};

/// Three steps of what `config` says; `work` gives each device its world.
Outcome train_on(const Config& config,
                 const std::function<void(const std::function<void(comm::Communicator&)>&)>& work) {
  const engine::CompiledStep step = engine::compile(model_of(config), compile_options(config));
  std::mutex mutex;
  Outcome outcome;
  std::vector<std::pair<std::string, std::uint64_t>> hashes;
  work([&](comm::Communicator& world) {
    engine::Device device(step, world.rank(), 1, world);
    device.initialise(7);
    RandomSource source(1, step.model);
    RunOptimizer optimizer(config.train);
    for (int s = 0; s < 3; ++s) {
      optimizer.begin_step(s);
      device.executor().run(
          {.source = &source, .optimizer = &optimizer, .loss_scale = 1.0F / 128.0F});
    }
    const std::lock_guard lock(mutex);
    outcome.as_planned &= device.arena().peak() == step.planned_on(world.rank());
    for (auto& hash : device.weight_hashes()) hashes.push_back(hash);
  });
  outcome.weights = engine::combine_hashes(hashes);
  return outcome;
}

Outcome train_over_delay(const Config& config, std::int64_t early_bytes) {
  testing::TcpDevices devices(2, testing::Wire::Plain);
  for (const int device : {0, 1})
    devices.setup(device).early_bytes = static_cast<std::uint64_t>(early_bytes);
  testing::DelayingRelay relay(devices.setup(0).peers[0].address, kDelay);
  devices.setup(1).peers[0].address = relay.address();
  return train_on(config, [&](const auto& work) { devices.run(work); });
}

TEST(Latency, HiddenOverARealWireGivesTheSameBits) {
  const Config config = config_of("[parallel]\npipeline = 2\n");
  const plan::LinkCosts link{.latency = 0.02, .per_byte = 0, .credit = 0.02};
  const Config hidden =
      with_latency_hidden(config, here, {.speed = {1, 1}, .links = {{}, link, link, {}}});
  ASSERT_GT(hidden.parallel.early.value_or(0), 0);

  const Outcome local = train_on(config, [](const auto& work) { comm::run_devices(2, work); });
  for (const Config& each : {config, hidden, looking(config, 3, 0), looking(config, 4, 2)}) {
    for (const std::int64_t early_bytes : {std::int64_t{0}, comm::kEarlyBytes}) {
      const Outcome outcome = train_over_delay(each, early_bytes);
      EXPECT_EQ(outcome.weights, local.weights) << describe(each);
      EXPECT_TRUE(outcome.as_planned) << describe(each);
    }
  }
}

// What may leave before its credit needs no receive that is posted far ahead.
TEST(Latency, OfCreditsIsNoneWhereMessagesAreSmall) {
  const plan::LinkCosts link{.latency = 10, .per_byte = 0, .credit = 10};
  const auto receives_ahead = [&](std::int64_t tokens) {
    Config config = config_of("[parallel]\npipeline = 2\n");
    config.model.context = config.train.sequence = tokens;
    return with_latency_hidden(config, here, {.speed = {1, 1}, .links = {{}, link, link, {}}})
        .parallel.receive_ahead.value_or(1);
  };
  EXPECT_EQ(receives_ahead(16), 1);
  EXPECT_GT(receives_ahead(2048), 1) << "eight messages of 256 KiB";
}

TEST(Latency, IsFoundByASurvey) {
  testing::TcpDevices devices(2, testing::Wire::Plain);
  testing::DelayingRelay relay(devices.setup(0).peers[0].address, kDelay);
  devices.setup(1).peers[0].address = relay.address();
  devices.run([&](comm::Communicator& world) {
    const engine::Survey survey = engine::survey(world, 1);
    for (const std::size_t at : {1, 2}) {
      EXPECT_GE(survey.links[at].latency, 0.02);
      EXPECT_EQ(survey.links[at].credit, survey.links[at].latency);
    }
  });
}

}  // namespace
}  // namespace cleave::train
