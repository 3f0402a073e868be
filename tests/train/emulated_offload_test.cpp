// Emulated devices move out what devices that compute would: the same instructions, the same bytes,
// in the time that devices.emulate gives them.

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "cleave/plan/time/simulator.h"
#include "cleave/train/step/emulation.h"
#include "cleave/train/step/trainer.h"

namespace cleave::train {
namespace {

Config config_of(const std::string& offload, const std::string& emulate) {
  return parse_config(fmt::format(R"(
[model]
kind = "gpt"
layers = 4
hidden = 64
heads = 2
vocab = 64
context = 32
[train]
batch = 8
microbatch = 1
sequence = 32
steps = 2
warmup = 0
[devices]
count = 2
{}
[parallel]
pipeline = 2
offload = "{}"
)",
                                  emulate, offload),
                      "test.toml");
}

constexpr const char* kEmulated = R"(emulate = "f=4ms,i=4ms,w=4ms,host=40MB/s")";

std::string moves_of(const schedule::Program& program) {
  std::string text;
  for (const auto& list : program.lists)
    for (const schedule::Instruction& i : list)
      if (schedule::is_move(i)) text += to_string(i) + " ";
  return text;
}

TEST(EmulatedOffload, MovesWhatDevicesThatComputeMove) {
  for (const char* offload : {"activations", "optimizer", "both"}) {
    const Config config = config_of(offload, kEmulated);
    const engine::CompiledStep asleep =
        engine::compile_emulated(model_of(config), compile_options(config));
    const engine::CompiledStep awake = compile_step(config_of(offload, ""));
    EXPECT_EQ(moves_of(asleep.program), moves_of(awake.program)) << offload;
    EXPECT_NE(moves_of(asleep.program), "") << offload;
    EXPECT_EQ(asleep.planned_bytes, awake.planned_bytes) << offload;
    EXPECT_EQ(asleep.outside_bytes, awake.outside_bytes) << offload;
  }
}

TEST(EmulatedOffload, TakesItsTimeWhenSimulated) {
  const auto makespan = [](const std::string& rate) {
    const Config config =
        config_of("activations", fmt::format("emulate = \"f=4ms,i=4ms,w=4ms,host={}\"", rate));
    const engine::CompiledStep step =
        engine::compile_emulated(model_of(config), compile_options(config));
    return plan::makespan(plan::simulate(step.program, emulated_costs(config, step.program)));
  };
  const double fast = makespan("100GB/s");
  EXPECT_NEAR(fast, makespan("40MB/s"), 0.5 * fast);
  EXPECT_GT(makespan("1MB/s"), 3 * fast);
}

}  // namespace
}  // namespace cleave::train
