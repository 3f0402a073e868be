#include "supervise/launch_line.h"

#include <string>
#include <vector>

#include <gtest/gtest.h>

namespace cleave::app {
namespace {

using Words = std::vector<std::string>;

TEST(LaunchLine, LetsFewerRanksFindALayoutOfTheirOwn) {
  const LaunchLine line({"mpirun", "-np", "4", "cleave", "train", "run.toml", "--overwrite",
                         "--set=parallel.chunks=2"});

  Words expected = {"mpirun",
                    "-np",
                    "3",
                    "cleave",
                    "train",
                    "run.toml",
                    "--set=parallel.chunks=2",
                    "--resume",
                    "--set",
                    "devices.count=3"};
  for (const char* key : {"pipeline", "tensor", "data", "chunks", "schedule", "partition", "zero",
                          "recompute", "receive_ahead", "early"})
    expected.insert(expected.end(), {"--set", "parallel." + std::string(key) + "=auto"});
  EXPECT_EQ(line.resumed(3).words(), expected);
}

TEST(LaunchLine, KeepsTheLayoutForAsManyRanks) {
  const LaunchLine line({"srun", "--ntasks=4", "/opt/bin/cleave", "train", "run.toml"});

  EXPECT_EQ(line.ranks(), 4);
  EXPECT_EQ(line.resumed({}).words(),
            (Words{"srun", "--ntasks=4", "/opt/bin/cleave", "train", "run.toml", "--resume"}));
}

}  // namespace
}  // namespace cleave::app
