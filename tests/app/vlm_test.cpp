// From texts with images to a trained model that reads both, by the commands that a user types.

#include <algorithm>
#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "app/vlm_run.h"
#include <fmt/format.h>

#include "cleave/base/file.h"

namespace cleave {
namespace {

using testing::Answer;
using testing::run_cleave;
using json = nlohmann::json;

class Vlm : public testing::VlmRun {};

TEST_F(Vlm, LearnsWhatImagesShowWithTheSameBitsOnAnyDevices) {
  const json alone = train("alone", "");
  const json spread =
      train("spread", "--set parallel.pipeline=2 --set parallel.data=2 --set parallel.zero=1");

  EXPECT_EQ(alone["weights"], spread["weights"]);
  EXPECT_EQ(alone["validation_loss"], spread["validation_loss"]);
  EXPECT_LT(alone["validation_loss"], 0.2) << alone.dump();
  const Answer evaluated =
      run_cleave("evaluate " + dir_.path("alone") + " --json --data " + dir_.path("talk.set"));
  ASSERT_EQ(evaluated.exit, 0) << evaluated.err;
  EXPECT_NEAR(json::parse(evaluated.out)["loss"].get<double>(),
              alone["validation_loss"].get<double>(), 1e-6);
}

TEST_F(Vlm, LeavesTheTowerOutOfMicrobatchesWithoutImages) {
  const std::string steps = "--set train.steps=6 ";
  const json alone = train("leaving", steps);
  EXPECT_GT(alone["left_out"], 0) << alone.dump();
  const std::string own = "--set parallel.placement=own --set parallel.vision.pipeline=1 ";
  for (const std::string& flags :
       {std::string("--set parallel.data=2 --set parallel.zero=3"),
        own + "--set parallel.pipeline=2 --set parallel.data=2 --set parallel.zero=2",
        own + "--set parallel.pipeline=3 --set parallel.schedule=auto",
        std::string("--set parallel.pipeline=2 --set parallel.schedule=zb-h1")}) {
    const json spread = train("leaving", steps + "--overwrite " + flags);
    EXPECT_EQ(spread["weights"], alone["weights"]) << flags;
    EXPECT_EQ(spread["validation_loss"], alone["validation_loss"]) << flags;
    EXPECT_EQ(spread["left_out"], alone["left_out"]) << flags;
    for (const json& device : spread["devices"]) {
      EXPECT_EQ(device["peak_bytes"], device["planned_bytes"]) << flags;
      EXPECT_EQ(device["sent"], device["planned_sent"]) << flags;
    }
  }
  const Answer said = run_cleave("train " + dir_.path("run.toml") + " " + steps +
                                 "--set train.out=" + dir_.path("said"));
  EXPECT_NE(said.out.find("leaves vision embedding .. projector out of "), std::string::npos)
      << said.out;
}

TEST_F(Vlm, GoesOnWithTheSameTowerOnly) {
  train("first", "--set train.steps=1");
  const Answer heads =
      run_cleave("train " + dir_.path("run.toml") +
                 " --resume --set train.steps=2 --set train.out=" + dir_.path("first") +
                 " --set model.vision.heads=4");

  EXPECT_EQ(heads.exit, 2);
  EXPECT_EQ(heads.err.find("cleave: model.vision.heads is 4, but "), 0u) << heads.err;
  EXPECT_NE(heads.err.find("resume with --set model.vision.heads=2"), std::string::npos);
}

/// Trains in layouts whose tower and language model have different numbers of replicas, and holds
/// them against one device of the same grid.
class UnequalReplicas : public Vlm {
 protected:
  struct Case {
    int vision;    ///< replicas of the tower
    int language;  ///< and of the language model
    std::string flags;
    int own = 1;   ///< stages of the tower
    int rest = 1;  ///< and of the language model
    int tensor = 1;
  };

  void expect_one_hash(const std::string& grid, const std::vector<Case>& cases) {
    const std::string common = "--set train.steps=3 --overwrite " + grid + " ";
    const json alone = train("one", common);
    for (const Case& c : cases) {
      const std::string flags = fmt::format(
          "--set parallel.placement=own --set parallel.pipeline={} --set "
          "parallel.vision.pipeline={} "
          "--set parallel.vision.data={} --set parallel.data={} --set parallel.tensor={} {}",
          c.own + c.rest, c.own, c.vision, c.language, c.tensor, c.flags);
      const json spread = train("one", common + flags);
      EXPECT_EQ(spread["weights"], alone["weights"]) << flags;
      EXPECT_EQ(spread["loss"], alone["loss"]) << flags;
      EXPECT_EQ(spread["validation_loss"], alone["validation_loss"]) << flags;
      EXPECT_EQ(spread["devices"].size(), c.tensor * (c.own * c.vision + c.rest * c.language))
          << flags;
      for (const json& device : spread["devices"]) {
        EXPECT_EQ(device["peak_bytes"], device["planned_bytes"]) << flags;
        EXPECT_EQ(device["sent"], device["planned_sent"]) << flags;
      }
    }
  }
};

TEST_F(UnequalReplicas, GiveTheBitsOfOneDeviceInEverySchedule) {
  expect_one_hash("", {{2, 1, "--set parallel.schedule=1f1b"},
                       {1, 2, "--set parallel.schedule=1f1b --set parallel.zero=1"},
                       {2, 1, "--set parallel.schedule=gpipe --set parallel.zero=2", 2},
                       {1, 2, "--set parallel.schedule=zb-h1 --set parallel.recompute=full", 1, 2},
                       {2, 1, "--set parallel.schedule=zb-h1 --set parallel.zero=3", 1, 2},
                       {1, 2, "--set parallel.schedule=auto", 2}});
}

TEST_F(UnequalReplicas, FoldFourShards) {
  expect_one_hash("--set numerics.data_shards=4",
                  {{4, 2, "--set parallel.zero=3"},
                   {4, 1, "--set parallel.schedule=zb-h1"},
                   {2, 4, "--set parallel.schedule=gpipe --set parallel.recompute=selective"},
                   {1, 4, ""},
                   // Each replica has two shards of its own.
                   {2, 1, "--set parallel.zero=1"}});
}

TEST_F(UnequalReplicas, HoldWithFrozenPartsTensorShardsAndBf16) {
  expect_one_hash("--set 'model.train=[\"projector\",\"language\"]'",
                  {{2, 1, "--set parallel.schedule=auto"}, {1, 2, "--set parallel.zero=2"}});
  expect_one_hash("--set numerics.tensor_shards=2 --set train.dtype=bf16",
                  {{2, 1, "", 1, 1, 2}, {1, 2, "--set parallel.offload=both"}});
}

TEST_F(UnequalReplicas, AreRefusedInOneSentence) {
  const auto refusal = [&](const std::string& flags) {
    return run_cleave("train " + dir_.path("run.toml") + " --set train.out=" + dir_.path("none") +
                      " " + flags)
        .err;
  };
  const std::string own =
      "--set parallel.placement=own --set parallel.pipeline=2 --set parallel.vision.pipeline=1 ";
  EXPECT_EQ(
      refusal("--set parallel.vision.data=2 --set parallel.pipeline=2"),
      "cleave: parallel.vision and parallel.language say how many stages each has of its own; "
      "set parallel.placement = \"own\"\n");
  EXPECT_EQ(refusal(own + "--set parallel.vision.data=3 --set parallel.data=2 --set "
                          "numerics.data_shards=3 --set train.batch=12"),
            "cleave: parallel.vision.data 3 and replicas 2 of the language model do not fold into "
            "each other; make one 2, 4, 8, … times the other, or one of them 1\n");
  EXPECT_EQ(refusal(own + "--set parallel.vision.data=2 --set parallel.schedule=zb-h2"),
            "cleave: schedule zb-h2 is made for stages with one number of replicas; take gpipe, "
            "1f1b, zb-h1, or auto\n");
  EXPECT_EQ(refusal(own + "--set parallel.language.data=2 --set parallel.data=1"),
            "cleave: parallel.data 1 and parallel.language.data 2 both say how many replicas the "
            "language model has; leave one out\n");
}

TEST_F(Vlm, IsPlannedByAutoWithTheSameBits) {
  const std::string few = "--set train.steps=3 ";
  const json alone = train("alone", few);
  const json planned =
      train("planned", few +
                           "--set devices.count=2 --set parallel.pipeline=auto "
                           "--set parallel.data=auto --set parallel.tensor=auto "
                           "--set parallel.zero=auto --set parallel.placement=auto");
  EXPECT_EQ(alone["weights"], planned["weights"]);
  for (const json& device : planned["devices"])
    EXPECT_EQ(device["planned_bytes"], device["peak_bytes"]);
}

TEST_F(Vlm, SaysWhatItSeesInAnImage) {
  train("seeing", "--set train.steps=200");
  const auto said = [&](const std::string& flags) {
    const Answer answer = run_cleave("generate " + dir_.path("seeing") +
                                     " --temperature 0 --tokens 4 --stop . --json " + flags);
    EXPECT_EQ(answer.exit, 0) << answer.err;
    return answer.exit == 0 ? json::parse(answer.out)["text"].get<std::string>() : "";
  };
  const std::string colour = " --image " + dir_.path("colour.jpg");
  const std::string grey = " --image " + dir_.path("grey.png");

  EXPECT_EQ(said("--prompt '?'" + colour), "a");
  EXPECT_EQ(said("--prompt '?'" + grey), "b");
  EXPECT_EQ(said("--prompt '?' --devices 2" + grey), "b");
  EXPECT_EQ(said("--prompt '<image><image>?'" + colour + grey), "ab");
  EXPECT_EQ(said("--prompt '?'"), "");

  const Answer alone = run_cleave("generate " + dir_.path("seeing") + " --prompt '<image>?'");
  EXPECT_EQ(alone.exit, 2);
  EXPECT_EQ(alone.err,
            "cleave: the prompt has 1 image tokens (<image>) and 0 images; give one image for "
            "each\n");
  const Answer text = run_cleave("generate " + dir_.path("seeing") + " --prompt x --image " +
                                 dir_.path("run.toml"));
  EXPECT_EQ(text.exit, 2);
  EXPECT_NE(text.err.find("run.toml"), std::string::npos) << text.err;
}

TEST_F(Vlm, SaysWhatIsWrong) {
  const auto complaint = [&](const std::string& flags) {
    const Answer answer = run_cleave("train " + dir_.path("run.toml") +
                                     " --set train.out=" + dir_.path("bad") + " " + flags);
    EXPECT_EQ(answer.exit, 2) << flags;
    return answer.err;
  };

  EXPECT_EQ(complaint("--set data.images=1"),
            "cleave: sample 3 of " + dir_.path("talk.set") +
                " has 2 images, and data.images is 1; raise it to 2\n");
  EXPECT_EQ(complaint("--set 'model.train=[\"projektor\"]'"),
            "cleave: model.train names \"projektor\", and no parameter is called so; did you mean "
            "projector?\n");
  EXPECT_EQ(complaint("--set model.vision.heads=3"),
            "cleave: model.vision.hidden 16 is not divisible by model.vision.heads 3\n");
}

TEST_F(Vlm, RefusesAnImageTokenWithoutAnImage) {
  dir_.write("bad.csv", "path,caption\ngrey.png,a picture\ncolour.jpg,see <image> here\n");
  const Answer packed =
      run_cleave("data pack " + dir_.path("bad.csv") + " --size 8 --out " + dir_.path("bad.set"));
  ASSERT_EQ(packed.exit, 0) << packed.err;

  const Answer answer =
      run_cleave("train " + dir_.path("run.toml") + " --set train.sequence=32 --set data.path=" +
                 dir_.path("bad.set") + " --set train.out=" + dir_.path("bad"));
  EXPECT_EQ(answer.exit, 2);
  EXPECT_EQ(answer.err, "cleave: sample 1 of " + dir_.path("bad.set") +
                            " has 2 image tokens (<image>) and 1 images; give one image for "
                            "each\n");
}

/// One sentence of complaint, and nothing that was half written.
void expect_refused(const std::string& arguments, const std::string& sentence,
                    const std::filesystem::path& left_out) {
  const Answer answer = run_cleave(arguments);
  EXPECT_EQ(answer.exit, 2) << arguments << answer.err;
  EXPECT_NE(answer.err.find(sentence), std::string::npos) << answer.err;
  EXPECT_EQ(std::ranges::count(answer.err, '\n'), 1) << answer.err;
  EXPECT_FALSE(std::filesystem::exists(left_out)) << arguments;
}

TEST_F(Vlm, SamplesThatCannotBeUsedAreNamedAndNothingIsPacked) {
  const std::string whole = read_text(dir_.path("grey.png"));
  dir_.write("cut.png", whole.substr(0, whole.size() / 2));
  const auto line = [](const std::string& image, const std::string& asked) {
    return "{" + image + "\"conversations\": [{\"from\": \"human\", \"value\": \"" + asked +
           "\"}, {\"from\": \"gpt\", \"value\": \"b\"}]}\n";
  };
  const std::string two = "\"image\": [\"grey.png\", \"grey.png\"], ";
  const std::pair<std::string, std::string> cases[] = {
      {line("\"image\": \"gone.png\", ", "<image>"), "gone.png: No such file or directory"},
      {line("\"image\": \"cut.png\", ", "<image>"), "this PNG is damaged"},
      {line("", "<image>"), "has 1 image tokens (<image>) and 0 images; give one image for each"},
      {line("\"image\": \"grey.png\", ", "?"), "has 0 image tokens (<image>) and 1 images"},
      {line(two, "<image><image>"), "has 2 images, and a sample of the set has room for 1"},
      {line("\"image\": \"grey.png\", ", "caf\xe9<image>"), "is no JSON in UTF-8"}};
  for (const auto& [text, sentence] : cases) {
    const std::string file = dir_.write("bad.jsonl", text);
    expect_refused("data pack " + file + " --size 8 --out " + dir_.path("bad.set"), sentence,
                   dir_.path("bad.set"));
  }
  const std::string csv = dir_.write("bad.csv", "path,caption\ngrey.png,caf\xe9\n");
  expect_refused("data pack " + csv + " --size 8 --out " + dir_.path("bad.set"), "is not UTF-8",
                 dir_.path("bad.set"));
}

TEST_F(Vlm, SetsAndModulesThatAreNotThereAreRefusedBeforeTheRun) {
  const std::string whole = read_text(dir_.path("talk.set"));
  const std::string run =
      "train " + dir_.path("run.toml") + " --set train.out=" + dir_.path("none");
  const std::string other = dir_.write("other.set", "not a set" + whole);
  const std::string cut = dir_.write("cut.set", whole.substr(0, whole.size() / 2));
  const std::pair<std::string, std::string> cases[] = {
      {" --set data.path=" + other, "is no packed set of images (it begins with other bytes)"},
      {" --set data.path=" + cut, "was cut off or damaged; pack it again"},
      {" --set data.images=1", "has 2 images, and data.images is 1; raise it to 2"},
      {" --set 'model.train=[\"projectorr\"]'", "did you mean projector?"}};
  for (const auto& [flags, sentence] : cases)
    expect_refused(run + flags, sentence, dir_.path("none"));
}

}  // namespace
}  // namespace cleave
