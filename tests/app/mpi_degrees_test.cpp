// Modules with tensor degrees of their own, on real MPI processes.

#include <string>
#include <vector>

#include "app/process.h"
#include "app/vlm_run.h"

namespace cleave {
namespace {

using testing::Answer;
using json = nlohmann::json;

class MpiSameBitsOfDegrees : public testing::VlmRun {};

TEST_F(MpiSameBitsOfDegrees, AsOneLocalDevice) {
  const std::string grid = "--overwrite --set train.steps=3 --set numerics.tensor_shards=2";
  const json alone = train("alone", grid);
  const std::vector<std::pair<int, std::vector<std::string>>> layouts = {
      {3, {"parallel.vision.tensor=1", "parallel.language.tensor=2"}},
      {3, {"parallel.vision.tensor=2", "parallel.language.tensor=1"}},
      {3, {"parallel.vision.tensor=2", "parallel.language.tensor=1", "data.images=5"}},
      {6,
       {"parallel.vision.tensor=1", "parallel.language.tensor=2", "parallel.data=2",
        "parallel.zero=1"}}};
  for (const auto& [ranks, keys] : layouts) {
    std::vector<std::string> arguments = {"train", dir_.path("run.toml"), "--json", "--overwrite"};
    const std::vector<std::string> common = {
        "train.steps=3",       "numerics.tensor_shards=2",   "parallel.placement=own",
        "parallel.pipeline=2", "parallel.vision.pipeline=1", "train.out=" + dir_.path("ranks")};
    for (const std::string& key : common) arguments.insert(arguments.end(), {"--set", key});
    for (const std::string& key : keys) arguments.insert(arguments.end(), {"--set", key});
    const Answer answer = testing::run(testing::cleave_command(arguments, ranks));
    ASSERT_EQ(answer.exit, 0) << answer.err;
    const json report = json::parse(answer.out);
    EXPECT_EQ(report["weights"], alone["weights"]) << keys.front() << " " << keys.back();
    EXPECT_EQ(report["loss"], alone["loss"]) << keys.front();
    ASSERT_EQ(report["devices"].size(), ranks);
    for (const json& device : report["devices"]) {
      EXPECT_EQ(device["peak_bytes"], device["planned_bytes"]);
      EXPECT_EQ(device["sent"], device["planned_sent"]);
    }
  }
}

}  // namespace
}  // namespace cleave
