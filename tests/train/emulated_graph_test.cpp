// Emulated devices run models whose stages form a graph: two towers, and a tower that feeds several
// layers, of which a compiled program has several edges between two stages.

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "cleave/model/presets.h"
#include "cleave/train/step/trainer.h"

namespace cleave::train {
namespace {

engine::CompiledStep compiled_to_sleep(const std::string& preset, const std::string& schedule,
                                       const std::string& partition) {
  const Config config = parse_config(fmt::format(R"(
[model]
preset = "{}"
[train]
batch = 8
microbatch = 1
sequence = 48
[devices]
count = 3
emulate = "f=4ms,i=5ms,w=3ms"
[parallel]
pipeline = 3
schedule = "{}"
partition = {}
)",
                                                 preset, schedule, partition),
                                     "test.toml");
  return engine::compile_emulated(model_of(config), compile_options(config));
}

TEST(EmulatedGraph, IsProvenForTwoTowers) {
  for (const char* preset : {"clip-tiny", "siglip-tiny"})
    for (const char* partition : {"[1, 2, 1]", "[2, 1, 1]", "[0, 2, 2]"})
      EXPECT_EQ(compiled_to_sleep(preset, "gpipe", partition).devices(), 3) << preset << partition;
}

TEST(EmulatedGraph, IsProvenForATowerThatFeedsSeveralLayers) {
  const std::int64_t blocks = model::find_preset("deepstack-tiny").shape.blocks();
  for (const char* schedule : {"gpipe", "1f1b", "zb-h1", "auto"})
    for (std::int64_t first = 1; first + 1 < blocks; ++first)
      EXPECT_EQ(compiled_to_sleep("deepstack-tiny", schedule,
                                  fmt::format("[{}, 1, {}]", first, blocks - first - 1))
                    .devices(),
                3)
          << schedule << first;
}

}  // namespace
}  // namespace cleave::train
