// Models of images, and of images beside texts, on accelerators: the weights are those of
// processors. Skipped where there is no accelerator.

#include "app/run_cleave.h"
#include "support/paths.h"
#include "support/temporary_directory.h"
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

namespace cleave {
namespace {

using json = nlohmann::json;
using testing::Answer;
using testing::run_cleave;

struct ImageModel {
  const char* name;
  const char* preset;
  const char* set;
  const char* keys;
};

class AcceleratedImages : public ::testing::TestWithParam<ImageModel> {
 protected:
  void SetUp() override {
    const json machine = json::parse(run_cleave("doctor --json").out);
    if (machine["accelerators"].empty()) GTEST_SKIP();
    const std::string files[] = {"colour.jpg", "grey.png", "bits.png"};
    for (const std::string& file : files)
      dir_.write(file, testing::read_text(testing::source_path("tests/golden/image/" + file)));
    std::string talk, pairs = "path,caption\n", classes = "path,label\n";
    for (int i = 0; i < 16; ++i) {
      const std::string& file = files[i % 3];
      json entry = {{"image", json::array()}};
      if (i % 4 != 0) entry["image"].push_back(file);
      entry["conversations"] = {{{"from", "human"}, {"value", i % 4 == 0 ? "?" : "<image>?"}},
                                {{"from", "gpt"}, {"value", std::to_string(i) + "."}}};
      talk += entry.dump() + "\n";
      pairs += file + ",picture " + std::to_string(i) + "\n";
      classes += file + "," + std::to_string(i % 3) + "\n";
    }
    pack(dir_.write("talk.jsonl", talk), "");
    pack(dir_.write("pairs.csv", pairs), "");
    pack(dir_.write("classes.csv", classes), " --channels 1");
  }

  void pack(const std::string& source, const std::string& flags) {
    const Answer packed =
        run_cleave("data pack " + source + " --size 28 --out " + source + ".set" + flags);
    ASSERT_EQ(packed.exit, 0) << packed.err;
  }

  json train(const std::string& flags) {
    const Answer answer =
        run_cleave("train " + dir_.write("run.toml", "") + " --json --overwrite --set train.out=" +
                   dir_.path("out") + " --set data.path=" + dir_.path(GetParam().set) +
                   " --set model.preset=" + GetParam().preset +
                   " --set train.steps=2 --set train.batch=8 --set train.microbatch=2"
                   " --set train.warmup=1 --set data.validation=0 --set numerics.data_shards=2"
                   " --set numerics.exact=true " +
                   GetParam().keys + " " + flags);
    EXPECT_EQ(answer.exit, 0) << answer.err;
    return answer.exit == 0 ? json::parse(answer.out) : json();
  }

  testing::TemporaryDirectory dir_;
};

TEST_P(AcceleratedImages, GiveTheBitsOfProcessors) {
  const json expected = train("");
  for (const char* flags :
       {"--set devices.kind=opencl",
        "--set devices.kind=opencl --set train.dtype=f32 --set parallel.pipeline=2",
        "--set parallel.data=2 --set 'devices.kind=[\"cpu\", \"opencl\"]'"}) {
    const json report = train(flags);
    EXPECT_EQ(report["weights"], expected["weights"]) << flags;
    for (const json& device : report["devices"]) {
      EXPECT_EQ(device["peak_bytes"], device["planned_bytes"]) << flags;
      EXPECT_EQ(device["host_bytes"], device["planned_host_bytes"]) << flags;
    }
  }
  const json rounded = train("--set train.dtype=bf16");
  EXPECT_EQ(train("--set train.dtype=bf16 --set devices.kind=opencl")["weights"],
            rounded["weights"]);
}

INSTANTIATE_TEST_SUITE_P(
    Models, AcceleratedImages,
    ::testing::Values(ImageModel{"clip", "clip-tiny", "pairs.csv.set",
                                 "--set train.sequence=24 --set parallel.schedule=gpipe"},
                      ImageModel{"siglip", "siglip-tiny", "pairs.csv.set",
                                 "--set train.sequence=24 --set parallel.schedule=gpipe"},
                      ImageModel{"vlm", "vlm-tiny", "talk.jsonl.set", "--set train.sequence=48"},
                      ImageModel{"vlm_with_room", "vlm-tiny", "talk.jsonl.set",
                                 "--set train.sequence=48 --set data.images=3"},
                      ImageModel{"unet", "unet-tiny", "classes.csv.set", ""}),
    [](const auto& info) { return std::string(info.param.name); });

}  // namespace
}  // namespace cleave
