// Emulated devices, the watchdog and the profile: structure only, no timing.

#include <algorithm>
#include <cmath>
#include <future>
#include <mutex>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "cleave/base/check.h"
#include "cleave/base/philox.h"
#include "cleave/comm/local/local_world.h"
#include "cleave/engine/measure/profile.h"
#include "cleave/engine/run/emulated_device.h"
#include "cleave/model/family.h"
#include "cleave/plan/order/auto_schedule.h"
#include "cleave/plan/time/simulator.h"
#include "cleave/schedule/generators.h"
#include "cleave/schedule/passes.h"
#include "cleave/schedule/verifier.h"
#include "cleave/train/step/random_source.h"
#include "cleave/train/step/run_optimizer.h"

namespace cleave::engine {
namespace {

constexpr EmulatedTimes kShort{.f = 1e-5, .i = 1e-5, .w = 1e-5, .speed = {}};

schedule::Program lowered(std::string_view name, int devices) {
  schedule::Program program = schedule::generate(name, {.devices = devices, .microbatches = 6});
  for (schedule::Edge& edge : program.edges) edge.forward_bytes = edge.backward_bytes = 4096;
  program = schedule::lower(std::move(program), {});
  plan_messages(program);
  return program;
}

TEST(Emulated, RunsEveryInstructionOfEverySchedule) {
  for (std::string_view name : schedule::schedule_names()) {
    const schedule::Program program = lowered(name, 3);
    comm::run_devices(3, [&](comm::Communicator& world) {
      EmulatedDevice device(program, emulated_costs(program, kShort, world.rank()), world.rank(),
                            world);
      const StepResult result = device.executor().run({.stop = world.rank() == 1});
      EXPECT_TRUE(result.stop) << name;
      EXPECT_EQ(device.executor().spans().size(), program.lists[world.rank()].size()) << name;
      EXPECT_EQ(device.arena().peak(), plan::peak_bytes(program)[world.rank()]) << name;
    });
  }
}

TEST(Emulated, SlowDevicesTakeLongerInTheirCosts) {
  const schedule::Program program = lowered("1f1b", 2);
  EmulatedTimes times = kShort;
  times.speed = {1, 0.5};

  const plan::Costs costs = emulated_costs(program, times);

  EXPECT_DOUBLE_EQ(costs.stages[1].forward, 2 * costs.stages[0].forward);
}

// Whatever else the machine does, sleeping devices take no less than their costs say: a simulator
// that waits where the executor does not would predict more than they take.
TEST(Emulated, ExchangesParametersAndGradientsBehindComputeAsSimulated) {
  schedule::Program program = schedule::generate("1f1b", {.devices = 2, .microbatches = 2});
  program.segments = {3, 3};
  program = schedule::lower(
      std::move(program),
      {.replicas = 2, .grain = schedule::Grain::Segment, .sharing = schedule::Sharing::Values});
  plan_messages(program);
  plan::Costs costs = emulated_costs(program, {.f = 6e-3, .i = 6e-3, .w = 6e-3, .speed = {}});
  for (plan::StageCosts& stage : costs.stages) stage.gather = stage.reduce = 6e-3;

  std::vector<double> ends(4);
  comm::run_devices(4, [&](comm::Communicator& world) {
    EmulatedDevice device(program, costs, world.rank(), world);
    world.barrier().wait();
    (void)device.executor().run({});
    ends[world.rank()] = device.executor().spans().back().end;
  });

  // NORM ends for all at the same time, and the first to begin has taken all of it.
  const double simulated = plan::summarise(program, plan::simulate(program, costs)).makespan;
  EXPECT_GE(*std::ranges::max_element(ends), simulated);
  double blocking = 0;  // of device 0 alone: what it would take without any overlap
  for (const schedule::Instruction& i : program.lists[0])
    blocking += plan::duration(program, costs, 0, i);
  EXPECT_LT(simulated, blocking);
}

/// Two towers of one stage each and a language model of two. Of its microbatches some have no image
/// for the first tower, which has no part in them.
schedule::Program towers(std::string_view name, const std::vector<int>& images) {
  schedule::PipelineShape shape{
      .devices = 4,
      .microbatches = static_cast<int>(images.size()),
      .graph = {{.from = 0, .to = 2}, {.from = 1, .to = 2}, {.from = 2, .to = 3}}};
  for (int m = 0; m < std::ssize(images); ++m)
    if (images[static_cast<std::size_t>(m)] == 0) shape.absent.push_back({0, m});
  schedule::Program program = plan::generate(name, shape);
  for (schedule::Edge& edge : program.edges) edge.forward_bytes = edge.backward_bytes = 4096;
  program = schedule::lower(std::move(program), {});
  plan_messages(program);
  return program;
}

// From 1 us to 1 s, as many tenfold as tenth, and for the tower as often as there are images.
TEST(Emulated, NeverHangsHoweverUnevenPassesOfAGraphAre) {
  const std::vector<int> images = {3, 0, 1, 0};
  for (const char* name : {"gpipe", "1f1b", "zb-h1", "auto"}) {
    const schedule::Program program = towers(name, images);
    ASSERT_TRUE(schedule::verify(program).empty()) << name;
    comm::run_devices(4, [&](comm::Communicator& world) {
      const Philox random(static_cast<std::uint64_t>(world.rank()), "jitter", name);
      std::uint64_t next = 0;
      const auto jitter = [&](const schedule::Instruction& pass) {
        const int times = pass.stage == 0 ? images[static_cast<std::size_t>(pass.microbatch)] : 1;
        return times * std::pow(10.0, -6 * random.uniform(next++));
      };
      EmulatedDevice device(program, emulated_costs(program, kShort, world.rank()), world.rank(),
                            world, jitter);
      (void)device.executor().run({});
      EXPECT_EQ(device.executor().spans().size(), program.lists[world.rank()].size()) << name;
      EXPECT_GT(next, 0U);
    });
  }
}

TEST(Watchdog, NamesWhoWaitsForWhatWhenADeviceStopsAnswering) {
  const schedule::Program program = lowered("1f1b", 2);
  std::promise<void> gave_up;
  std::string message;
  EXPECT_THROW(comm::run_devices(2,
                                 [&](comm::Communicator& world) {
                                   EmulatedDevice device(
                                       program, emulated_costs(program, kShort, world.rank()),
                                       world.rank(), world);
                                   if (world.rank() == 1) return gave_up.get_future().wait();
                                   world.set_patience(std::chrono::milliseconds(50));
                                   try {
                                     (void)device.executor().run({});
                                   } catch (const DeviceLost& error) {
                                     message = error.what();
                                     gave_up.set_value();
                                     throw;
                                   }
                                 }),
               DeviceLost);
  for (const char* part : {"at WAIT:", "device 0 has waited 50.0 ms for its receive",
                           "device 1 waits for nobody", "edge 0", "device 1"})
    EXPECT_NE(message.find(part), std::string::npos) << message;
}

/// Weights after two steps on `devices` devices, with or without a profile before.
std::string weights_after(int devices, bool profiled) {
  const ModelShape shape{.layers = 4,
                         .hidden = 32,
                         .heads = 4,
                         .kv_heads = 4,
                         .ffn = 64,
                         .vocab = 61,
                         .context = 16,
                         .tie_embeddings = true};
  const CompiledStep step =
      compile(model::graph_of(shape, {.sequences = 1, .sequence = 16, .dtype = DType::BF16}),
              {.layout = {.pipeline = devices}, .microbatches = 4});
  std::mutex mutex;
  std::vector<std::pair<std::string, std::uint64_t>> hashes;
  comm::run_devices(devices, [&](comm::Communicator& world) {
    Device device(step, world.rank(), 1, world);
    train::RunOptimizer optimizer({.steps = 2, .lr = 1e-2});
    train::RandomSource source(3, shape.vocab);
    const StepInput input{.source = &source, .optimizer = &optimizer, .loss_scale = 1.0f / 64};
    optimizer.begin_step(0);
    if (profiled) {
      const Profile measured = profile(step, device, input, world, {.steps = 1});
      plan::check(step.program, measured.costs);
      for (std::size_t s = 0; s < measured.costs.stages.size(); ++s) {
        const plan::StageCosts& stage = measured.costs.stages[s];
        EXPECT_GT(stage.forward * stage.input, 0);
        EXPECT_LE(measured.quick.stages[s].forward, stage.forward);
        EXPECT_GE(measured.slow.stages[s].forward, stage.forward);
      }
    }
    device.initialise(7);
    for (int s = 0; s < 2; ++s) {
      optimizer.begin_step(s);
      (void)device.executor().run(input);
    }
    EXPECT_EQ(device.arena().peak(), step.planned_bytes[world.rank()]);
    const std::lock_guard lock(mutex);
    for (auto& hash : device.weight_hashes()) hashes.push_back(hash);
  });
  return combine_hashes(hashes);
}

TEST(Profile, LeavesTheBitsOfTheTrainingAlone) {
  for (int devices : {1, 2}) EXPECT_EQ(weights_after(devices, true), weights_after(devices, false));
}

}  // namespace
}  // namespace cleave::engine
