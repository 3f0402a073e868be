// A tower and a language model with tensor degrees of their own, by the commands that a user types.

#include <string>
#include <vector>

#include "app/vlm_run.h"
#include <fmt/format.h>

namespace cleave {
namespace {

using testing::Answer;
using testing::run_cleave;
using json = nlohmann::json;

class VlmDegrees : public testing::VlmRun {
 protected:
  /// One stage of the tower, and `rest` of the language model.
  static std::string degrees(int vision, int language, const std::string& more = "", int rest = 1) {
    return fmt::format(
        "--set parallel.placement=own --set parallel.pipeline={} --set parallel.vision.pipeline=1 "
        "--set parallel.vision.tensor={} --set parallel.language.tensor={} {} ",
        1 + rest, vision, language, more);
  }

  static void expect_as_planned(const json& report, const std::string& flags) {
    for (const json& device : report["devices"]) {
      EXPECT_EQ(device["peak_bytes"], device["planned_bytes"]) << flags;
      EXPECT_EQ(device["sent"], device["planned_sent"]) << flags;
    }
  }

  void expect_one_hash(const std::string& grid, const std::vector<std::string>& layouts) {
    const std::string common = "--set train.steps=3 --overwrite ";
    const json alone = train("one", common + grid);
    for (const std::string& layout : layouts) {
      const json spread = train("one", common + layout);
      EXPECT_EQ(spread["weights"], alone["weights"]) << layout;
      EXPECT_EQ(spread["loss"], alone["loss"]) << layout;
      EXPECT_EQ(spread["validation_loss"], alone["validation_loss"]) << layout;
      expect_as_planned(spread, layout);
    }
  }

  std::string refusal(const std::string& flags) {
    const Answer answer = run_cleave("train " + dir_.path("run.toml") +
                                     " --set train.out=" + dir_.path("none") + " " + flags);
    EXPECT_EQ(answer.exit, 2) << flags;
    return answer.err;
  }
};

// By default the tensor shards of a module are its degree.
TEST_F(VlmDegrees, GiveTheBitsOfOneDeviceWithTheirShards) {
  expect_one_hash(
      "--set numerics.tensor_shards=2 --set numerics.vision.tensor_shards=1",
      {degrees(1, 2), degrees(1, 2, "--set parallel.data=2 --set parallel.zero=1"),
       degrees(1, 2, "--set parallel.schedule=zb-h1 --set parallel.recompute=full", 2)});
  expect_one_hash("--set numerics.vision.tensor_shards=2",
                  {degrees(2, 1), degrees(2, 1, "--set parallel.schedule=gpipe")});
}

TEST_F(VlmDegrees, ChangeNoBitOfShardsThatAreGiven) {
  const std::string four =
      "--set model.heads=4 --set model.vision.heads=4 --set numerics.tensor_shards=4 "
      "--set train.dtype=bf16 ";
  expect_one_hash(four, {four + degrees(2, 4), four + degrees(4, 1), four + degrees(1, 4),
                         four + "--set parallel.tensor=4",
                         four + degrees(1, 2, "--set parallel.vision.data=2")});
}

TEST_F(VlmDegrees, AreTakenUpEvaluatedAndGeneratedFromInAnyLayout) {
  const std::string saving = "--set train.steps=6 --set train.checkpoint_every=3 ";
  const json whole = train("whole", saving + degrees(1, 2));
  const std::string half = "--resume=" + dir_.path("whole") + "/checkpoints/step-00000003 ";
  // The grid is the saved one, so a device alone and the same shards on equal degrees go on with
  // it.
  for (const std::string& layout : {std::string(), degrees(1, 2, "--set parallel.zero=0", 2)}) {
    const json rest = train("whole", saving + half + layout);
    EXPECT_EQ(rest["weights"], whole["weights"]) << layout;
  }
  const auto loss = [&](const std::string& flags) {
    const Answer answer = run_cleave("evaluate " + dir_.path("whole") + " --json --data " +
                                     dir_.path("talk.set") + " " + flags);
    EXPECT_EQ(answer.exit, 0) << answer.err;
    const json report = json::parse(answer.out);
    for (const json& device : report["devices"])
      EXPECT_EQ(device["peak_bytes"], device["planned_bytes"]) << flags;
    return report["loss"].get<double>();
  };
  EXPECT_EQ(loss(degrees(1, 2)), loss(""));
  const Answer said = run_cleave("generate " + dir_.path("whole") + " --prompt '?' --tokens 2 " +
                                 "--image " + dir_.path("grey.png"));
  EXPECT_EQ(said.exit, 0) << said.err;
}

TEST_F(VlmDegrees, ArePlannedByDevice) {
  const Answer answer = run_cleave("plan " + dir_.path("run.toml") + " --json " + degrees(1, 2));
  ASSERT_EQ(answer.exit, 0) << answer.err;
  const json plan = json::parse(answer.out);
  ASSERT_EQ(plan["planned_bytes"].size(), 3u);
  EXPECT_EQ(plan["planned_bytes"][1], plan["planned_bytes"][2]);
  EXPECT_EQ(plan["layout"]["tp"], 2);
  EXPECT_EQ(plan["layout"]["vision_tp"], 1);
  const Answer run = run_cleave("train " + dir_.path("run.toml") + " --set train.steps=1 --set " +
                                "train.out=" + dir_.path("said") + " " + degrees(1, 2));
  EXPECT_NE(run.out.find("grid: 2 data shards x 2 tensor shards (1 of the tower), microbatch 2; "
                         "the same bits with data 1 or 2, tensor 1 or 2 (1 of the tower) and any"),
            std::string::npos)
      << run.out;
}

TEST_F(VlmDegrees, AreRefusedInOneSentence) {
  const std::string both = "cleave: parallel.vision.tensor 1 beside tensor 2 of the language model";
  const std::string equal = ", or make the degrees equal\n";
  EXPECT_EQ(
      refusal(degrees(1, 2, "--set parallel.sequence_parallel=true")),
      both + " divides no rows among devices; set parallel.sequence_parallel = false" + equal);
  EXPECT_EQ(refusal(degrees(1, 2, "--set parallel.order=tensor,data,pipeline")),
            both + " counts devices place by place; leave parallel.order and edge out" + equal);
  EXPECT_EQ(refusal(degrees(1, 2, "--set devices.emulate=f=1ms,i=1ms,w=1ms")),
            both + " is for devices that compute; leave devices.emulate out" + equal);
  EXPECT_EQ(refusal(degrees(1, 2, "--set devices.transport=tcp --set train.elastic=true")),
            both + " is not planned anew when a device is lost; set train.elastic = false" + equal);
  EXPECT_EQ(refusal(degrees(1, 2, "--set parallel.zero=auto")),
            "cleave: parallel.vision.tensor is of a layout that is given; give parallel.data, "
            "tensor, zero, recompute and train.microbatch numbers, not \"auto\"\n");
  EXPECT_EQ(refusal(degrees(1, 2, "--set parallel.tensor=1")),
            "cleave: parallel.tensor 1 and parallel.language.tensor 2 both say into how many "
            "pieces layers of the language model are cut; leave one out\n");
  EXPECT_EQ(refusal(degrees(2, 1, "--set numerics.tensor_shards=1")),
            "cleave: numerics.vision.tensor_shards 1 cannot be shared by parallel.vision.tensor 2; "
            "choose a degree that divides the shards\n");
  EXPECT_EQ(refusal(degrees(1, 2, "--set devices.count=4")),
            "cleave: pipeline 2 × tensor 2 × data 1 (1 of its stages × tensor 1) makes 3 devices, "
            "but there are 4; change a degree, or the number of devices\n");
  EXPECT_EQ(refusal("--set parallel.vision.tensor=2 --set parallel.pipeline=2"),
            "cleave: parallel.vision and parallel.language say how many stages each has of its "
            "own; set parallel.placement = \"own\"\n");
}

}  // namespace
}  // namespace cleave
