#include "train/tiny_config.h"
#include <gtest/gtest.h>

#include "cleave/base/version.h"
#include "cleave/train/config/config_reference.h"

namespace cleave::train {
namespace {

using testing::config_with;
using testing::kTinyConfig;
using testing::refused_config;

TEST(ConfigRefusals, RefusesWhatWouldOverflowOrExhaustTheStack) {
  EXPECT_EQ(refused_config({"train.microbatch=4611686018427387904", "parallel.data=4"}),
            "train.microbatch 4611686018427387904 is more than the train.batch of 8; make it a "
            "divisor of the batch");
  EXPECT_EQ(refused_config({"parallel.data=1000000", "train.batch=1000000"}),
            "devices.count 1000000 devices would be as many threads of one process, and more than "
            "4096 help nobody; use fewer, or MPI ranks");
  EXPECT_EQ(
      refused_config({"train.batch=1000000000", "train.steps=1000000000", "train.sequence=64",
                      "model.context=64"}),
      "train.steps 1000000000 of train.batch 1000000000 sequences with train.sequence 64 tokens "
      "are 2^63 tokens or more; take fewer steps");
  std::string deep = "a";
  for (int i = 0; i < 50000; ++i) deep += ".a";
  for (const std::string& text : {deep + " = 1", "[" + deep + "]", "x = {" + deep + " = 1}"})
    EXPECT_EQ(refused_config({}, "\n" + text + "\n").substr(0, 49),
              "run.toml:2 has a key of more than 64 parts; no ke");
  EXPECT_NE(refused_config({"train.steps={" + deep + "=1}"}), "");
  std::string speeds = "1.5";
  for (int i = 1; i < 4000; ++i) speeds += ", 1.5";
  EXPECT_EQ(config_with({"devices.count=4000", "parallel.data=4000", "train.batch=4000"},
                        kTinyConfig + "[devices]\nspeed = [" + speeds + "]\n")
                .devices.speed.size(),
            4000u);
}

TEST(ConfigRefusals, StatesTypeErrorsWithValuePlaceAndRule) {
  EXPECT_EQ(refused_config({}, kTinyConfig + "[train]\n\nbatch = 4\n\nsteps = \"abc\""),
            "train.steps is \"abc\" (a string) at run.toml:7; it must be a whole number ≥ 0");
  EXPECT_EQ(refused_config({"train.batch=0"}),
            "train.batch is 0 (a whole number) in --set; it must be a whole number ≥ 1");
  EXPECT_EQ(refused_config({"train.steps=1.5"}),
            "train.steps is 1.5 (a number) in --set; it must be a whole number ≥ 0");
  EXPECT_EQ(refused_config({"train.lr=0"}),
            "train.lr is 0 (a whole number) in --set; it must be a number > 0");
  EXPECT_EQ(refused_config({"train.lr=nan"}),
            "train.lr is nan (a number) in --set; it must be a number > 0");
  EXPECT_EQ(refused_config({"parallel.zero=4"}),
            "parallel.zero is 4 (a whole number) in --set; it must be a whole number from 0 to 3 "
            "or \"auto\"");
  EXPECT_EQ(refused_config({"parallel.recompute=[\"full\", \"some\"]"}),
            "parallel.recompute is [\"full\", \"some\"] (a list) in --set; it must be \"none\", "
            "\"full\", \"selective\" or \"auto\", or a list with one for each layer");
  EXPECT_EQ(refused_config({"train.dtype=f16"}),
            "train.dtype is \"f16\" (a string) in --set; it must be \"f32\" or \"bf16\"");
  EXPECT_EQ(refused_config({"devices.memory=lots"}),
            "devices.memory is \"lots\" (a string) in --set; it must be a size such as \"96MiB\", "
            "or a list with one for each device");
  for (const char* bad : {"gpu", "opencl:", "opencl:x", "opencl:-1", "opencl1", "cpu:0"}) {
    EXPECT_EQ(refused_config({std::string("devices.kind=") + bad}),
              std::string("devices.kind is \"") + bad +
                  "\" (a string) in --set; it must be \"cpu\", \"opencl\" or \"opencl:N\", or a "
                  "list with one for each device");
  }
  EXPECT_EQ(refused_config({"devices.emulate=f=5ms,f=5ms,w=1ms"}),
            "devices.emulate is \"f=5ms,f=5ms,w=1ms\" (a string) in --set; it must be times such "
            "as \"f=5ms,i=5ms,w=5ms\"");
  EXPECT_EQ(refused_config({"train.rates=[[10, 1e-3], [5, 0]]"}),
            "train.rates is [[10, 0.001], [5, 0]] (a list) in --set; it must be a list such as "
            "[[1, 1e-5], [100, 3e-4], [1000, 0.0]], steps ascending from 1");
  EXPECT_EQ(refused_config({"model.preset=llama-tiny", "model.window=8", "model.full_layers=[4]"}),
            "model.full_layers and model.nope_layers have layer 4, but the last of model.layers 4 "
            "is 3; leave it out, or count from 0");
  EXPECT_EQ(refused_config({"train.betas=[0.9, 1]"}),
            "train.betas is [0.9, 1] (a list) in --set; it must be a list of two numbers from 0 "
            "to below 1");
  EXPECT_EQ(refused_config({}, "train = 3\n"),
            "train is a section and no key (at run.toml:1); give its keys under [train]");
}

TEST(ConfigRefusals, SuggestsTheNearestKey) {
  EXPECT_EQ(refused_config({"train.step=3"}),
            "there is no key train.step (in --set); did you mean train.steps?");
  EXPECT_EQ(refused_config({}, "[optimizer]\nlr = 3\n"),
            "there is no key optimizer.lr (at run.toml:2); did you mean train.lr?");
  EXPECT_EQ(refused_config({"nonsense=3"}), "there is no key nonsense (in --set)");
  EXPECT_EQ(refused_config({"train.steps"}),
            "--set train.steps has no key=value; write for example --set train.steps=50");
}

TEST(ConfigRefusals, TakesOnlyTextThatCheckpointsCanKeep) {
  EXPECT_EQ(
      refused_config({"data.path=d\xff.txt"}),
      "data.path is \"d\\xff.txt\" in --set, which is not UTF-8; give a name in UTF-8 without "
      "NUL bytes, such as that of a link");
  EXPECT_EQ(
      refused_config({"data.validation=\xc3"}),
      "data.validation is \"\\xc3\" in --set, which is not UTF-8; give a name in UTF-8 without "
      "NUL bytes, such as that of a link");
  EXPECT_EQ(
      refused_config({"train.out=\"nul\\u0000b\""}),
      "train.out is \"nul\\x00b\" in --set, which has a NUL byte; give a name in UTF-8 without "
      "NUL bytes, such as that of a link");
  EXPECT_EQ(refused_config({}, kTinyConfig + "[train]\nout = \"d\xff\"\n").substr(0, 23),
            "run.toml:4 is not TOML:");
  EXPECT_EQ(config_with({"data.path=naïve – 漢字\r"}).data.path[0].path, "naïve – 漢字\r");
}

TEST(ConfigRefusals, NamesTheLineThatIsNotToml) {
  const std::string message = refused_config({}, "[model]\nlayers = = 2\n");

  EXPECT_EQ(message.substr(0, 23), "run.toml:2 is not TOML:") << message;
}

TEST(ConfigRefusals, ChecksTheModel) {
  EXPECT_EQ(refused_config({"model.heads=5"}),
            "model.hidden 64 is not divisible by model.heads 5; set model.heads to a divisor such "
            "as 4");
  EXPECT_EQ(refused_config({"model.kind=llama"}),
            "model.kind is \"llama\", but model.preset gpt-tiny is a gpt; leave one of them out");
  EXPECT_EQ(refused_config({}, "[model]\nhidden = 64\nheads = 4\n"),
            "model.layers is missing; set it, or choose a model.preset or model.from");
  EXPECT_EQ(refused_config({"train.sequence=65"}),
            "train.sequence 65 is longer than model.context 64; shorten the sequence or enlarge "
            "the context");
}

TEST(ConfigRefusals, ChecksTheTrainingNumbers) {
  EXPECT_EQ(refused_config({"train.min_lr=1"}),
            "train.min_lr 1 is above train.lr 0.0003; it is what the rate falls to, so make it "
            "smaller");
  EXPECT_EQ(refused_config({"train.warmup=101"}),
            "train.warmup 101 is more than train.steps 100; warm up for fewer steps");
  EXPECT_EQ(refused_config({"train.batch=6", "train.microbatch=2", "parallel.data=2"}),
            "train.batch 6 is not divisible by microbatch 2 × 2 data shards (= 4); change "
            "the batch or the microbatch");
  EXPECT_EQ(config_with({"train.steps=0"}).train.warmup, 0);
}

TEST(ConfigRefusals, ChecksTheLayout) {
  EXPECT_EQ(refused_config({"devices.count=3", "parallel.pipeline=2"}),
            "pipeline 2 × tensor 1 × data 1 makes 2 devices, but there are 3; change a degree, "
            "or the number of devices");
  EXPECT_EQ(refused_config({"devices.count=3", "parallel.pipeline=2", "parallel.data=auto"}),
            "pipeline 2 × tensor 1 × data auto cannot multiply to devices.count 3, which is not "
            "divisible by 2; change one of them");
  EXPECT_EQ(refused_config({"parallel.data=auto"}),
            "devices.count is missing; it is needed when an axis of [parallel] is \"auto\"");
  EXPECT_EQ(refused_config({"parallel.partition=[1, 2]", "parallel.pipeline=2"}),
            "parallel.partition places 3 layers, but the model has 4; every layer needs one stage");
  EXPECT_EQ(
      refused_config({"parallel.partition=[1, 2, 1]", "parallel.pipeline=2", "parallel.chunks=1"}),
      "parallel.partition lists 3 stages, but pipeline 2 × chunks 1 makes 2; list one number "
      "for each stage");
  EXPECT_EQ(refused_config({"devices.memory=[\"1MiB\", \"2MiB\"]", "parallel.pipeline=3"}),
            "devices.memory lists 2 values for 3 devices; give one value, or one for each device");
  EXPECT_EQ(refused_config({"devices.kind=[\"cpu\", \"opencl:1\"]", "parallel.pipeline=3"}),
            "devices.kind lists 2 values for 3 devices; give one value, or one for each device");
  EXPECT_EQ(
      refused_config({"parallel.zero=2"}),
      "parallel.zero 2 shares memory among replicas, but parallel.data is 1; set parallel.data "
      "to 2 or more, or parallel.zero to 0");
  EXPECT_EQ(
      refused_config({"parallel.recompute=[\"full\", \"none\"]"}),
      "parallel.recompute lists 2 choices, but model.layers is 4; give one for each layer, or "
      "one for all");
  EXPECT_TRUE(refused_config({"parallel.schedule=1f2b"})
                  .starts_with("unknown schedule '1f2b'; did you mean 1f1b? Known are gpipe,"));
}

TEST(ConfigRefusals, AsksEmulatedDevicesHowFastTheyMoveThingsOut) {
  const std::string emulate = "devices.emulate=\"f=1ms,i=1ms,w=1ms";
  EXPECT_EQ(refused_config({"parallel.offload=activations", emulate + "\""}),
            "parallel.offload moves things out, and devices.emulate does not say how fast; add "
            "\",host=4GB/s\" to it, or set parallel.offload to \"none\"");
  EXPECT_EQ(refused_config(
                {"parallel.offload=both", emulate + ",host=1GB/s\"", "devices.spill=\"/tmp\""}),
            "devices.spill is a directory of a disk, and emulated devices write nothing; leave it "
            "out, and say in devices.emulate how fast they move things out, as in \",host=1GB/s\"");
  EXPECT_EQ(
      config_with({"parallel.offload=both", emulate + ",host=1.5GB/s\""}).devices.emulate->host,
      1.5e9);
  for (const char* rate : {"4GB", "0B/s", "fast", "-1GB/s", ""})
    EXPECT_NE(refused_config({emulate + ",host=" + rate + "\""}), "") << rate;
}

TEST(ConfigRefusals, ChecksThatTheLogicalGridFolds) {
  EXPECT_EQ(config_with({"numerics.data_shards=4", "parallel.data=2"}).numerics.data_shards, 4);
  EXPECT_EQ(refused_config({"numerics.data_shards=6", "parallel.data=2", "train.batch=12"}),
            "numerics.data_shards 6 is neither parallel.data 2 nor a power of two; sums need one "
            "of them");
  EXPECT_EQ(refused_config({"numerics.data_shards=2", "parallel.data=4"}),
            "numerics.data_shards 2 cannot be shared by parallel.data 4; choose a degree that "
            "divides the shards");
  EXPECT_EQ(refused_config({"parallel.tensor=3"}),
            "model.heads 4 cannot be divided among 3 tensor shards; choose a divisor of it");
}

TEST(ConfigRefusals, NamesAllThingsThatAreWrongAtOnce) {
  EXPECT_EQ(refused_config({"train.steps=abc", "train.stepz=3", "train.lr=-1"}),
            "3 things are wrong:\n"
            "  - train.steps is \"abc\" (a string) in --set; it must be a whole number ≥ 0\n"
            "  - there is no key train.stepz (in --set); did you mean train.steps?\n"
            "  - train.lr is -1 (a whole number) in --set; it must be a number > 0");
  EXPECT_EQ(refused_config({}, "[train]\nsteps = 1\n[model]\nheads = 2\n"),
            "2 things are wrong:\n"
            "  - model.layers is missing; set it, or choose a model.preset or model.from\n"
            "  - model.hidden is missing; set it, or choose a model.preset or model.from");
  EXPECT_EQ(refused_config({"train.warmup=200", "parallel.zero=1"}),
            "2 things are wrong:\n"
            "  - train.warmup 200 is more than train.steps 100; warm up for fewer steps\n"
            "  - parallel.zero 1 shares memory among replicas, but parallel.data is 1; set "
            "parallel.data to 2 or more, or parallel.zero to 0");
}

TEST(ConfigRefusals, SaysThatItIsTooOldForAConfigOfANewerVersion) {
  EXPECT_EQ(config_with({}, "cleave = \"0.1\"\n" + kTinyConfig), config_with({}));
  EXPECT_EQ(refused_config({}, "cleave = \"99.1\"\n" + kTinyConfig),
            "the config is for cleave 99.1 (at run.toml:1), and this is " + std::string(version()) +
                "; install that version, or take out the line and see");
  EXPECT_EQ(refused_config({}, "cleave = \"new\"\n" + kTinyConfig),
            "cleave is \"new\" (a string) at run.toml:1; it must be the version for which the "
            "config was written, such as \"" +
                std::string(version()) + "\"");
}

}  // namespace
}  // namespace cleave::train
