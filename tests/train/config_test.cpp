#include "cleave/train/config/config.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "support/errors.h"
#include <gtest/gtest.h>

#include "cleave/base/version.h"
#include "cleave/model/presets.h"
#include "cleave/train/config/config_reference.h"
#include "cleave/train/config/config_schema.h"

namespace cleave::train {
namespace {

using cleave::testing::user_error;

const std::string kTiny = "[model]\npreset = \"gpt-tiny\"\n";

Config with(std::vector<std::string> overrides, const std::string& text = kTiny) {
  return parse_config(text, "run.toml", {.overrides = std::move(overrides)});
}

std::string refused(std::vector<std::string> overrides, const std::string& text = kTiny) {
  return user_error([&] { with(std::move(overrides), text); });
}

TEST(Config, FillsInDefaults) {
  const Config config = with({});

  EXPECT_EQ(config.model, model::find_preset("gpt-tiny").shape);
  EXPECT_EQ(config.train.steps, 100);
  EXPECT_EQ(config.train.sequence, 64);  // the context is shorter than 256
  EXPECT_EQ(config.train.warmup, 10);
  EXPECT_DOUBLE_EQ(config.train.min_lr, 3e-5);
  EXPECT_EQ(config.devices.count, 1);
  EXPECT_EQ(config.parallel.schedule, "1f1b");
  EXPECT_EQ(config.numerics.data_shards, 1);
}

TEST(Config, TakesDefaultsThenFileThenOverridesWithTheLastOneWinning) {
  const std::string file = kTiny + "[train]\nsteps = 7\nbatch = 4\n";

  EXPECT_EQ(with({}, file).train.steps, 7);
  EXPECT_EQ(with({"train.steps=8", "train.steps = 9"}, file).train.steps, 9);
  EXPECT_EQ(with({"train.steps=8"}, file).train.batch, 4);
}

TEST(Config, TakesDefaultsOfASavedRunWhereNothingElseIsSaid) {
  const auto resumed = [](const std::string& text, std::vector<std::string> overrides = {}) {
    return parse_config(kTiny + text, "run.toml",
                        {.overrides = std::move(overrides),
                         .defaults = "train.microbatch = 2\nnumerics.data_shards = 4\n"});
  };

  EXPECT_EQ(resumed("").train.microbatch, 2);
  EXPECT_EQ(resumed("").numerics.data_shards, 4);
  EXPECT_EQ(resumed("[parallel]\ndata = 2\n").numerics.data_shards, 4);
  EXPECT_EQ(resumed("[train]\nmicrobatch = \"auto\"\n").train.microbatch, 2);
  EXPECT_EQ(resumed("[train]\nmicrobatch = 1\n").train.microbatch, 1);
  EXPECT_EQ(resumed("", {"numerics.data_shards=1"}).numerics.data_shards, 1);
}

TEST(Config, HasAGridThatLoadsBack) {
  const Config config = with({"train.microbatch=2", "parallel.data=2"});
  EXPECT_EQ(grid_of(config),
            "train.microbatch = 2\nnumerics.data_shards = 2\nnumerics.tensor_shards = 1\n");
}

TEST(Config, SavesNowAndThenByDefault) {
  EXPECT_EQ(with({"train.steps=20"}).train.checkpoint_every, 25);
  EXPECT_EQ(with({"train.steps=400"}).train.checkpoint_every, 40);
  EXPECT_EQ(with({"train.steps=100000"}).train.checkpoint_every, 250);
  EXPECT_EQ(with({"train.steps=400", "train.checkpoint_every=0"}).train.checkpoint_every, 0);
}

TEST(Config, RefusesWhatWouldOverflowOrExhaustTheStack) {
  EXPECT_EQ(refused({"train.microbatch=4611686018427387904", "parallel.data=4"}),
            "train.microbatch 4611686018427387904 is more than the train.batch of 8; make it a "
            "divisor of the batch");
  EXPECT_EQ(refused({"parallel.data=1000000", "train.batch=1000000"}),
            "devices.count 1000000 devices would be as many threads of one process, and more than "
            "4096 help nobody; use fewer, or MPI ranks");
  std::string deep = "a";
  for (int i = 0; i < 50000; ++i) deep += ".a";
  for (const std::string& text : {deep + " = 1", "[" + deep + "]", "x = {" + deep + " = 1}"})
    EXPECT_EQ(refused({}, "\n" + text + "\n").substr(0, 49),
              "run.toml:2 has a key of more than 64 parts; no ke");
  EXPECT_NE(refused({"train.steps={" + deep + "=1}"}), "");
  std::string speeds = "1.5";
  for (int i = 1; i < 4000; ++i) speeds += ", 1.5";
  EXPECT_EQ(with({"devices.count=4000", "parallel.data=4000", "train.batch=4000"},
                 kTiny + "[devices]\nspeed = [" + speeds + "]\n")
                .devices.speed.size(),
            4000u);
}

TEST(Config, KeepsSizesThatADoubleDoesNotHold) {
  const Config config = with({"devices.memory=9007199254740993"});
  EXPECT_EQ(parse_config(to_toml(config), "again").devices.memory[0], 9007199254740993);
}

TEST(Config, ReadsAnOverrideThatIsNotTomlAsAString) {
  EXPECT_EQ(with({"data.path=some/dir with blanks"}).data.path[0].path, "some/dir with blanks");
  EXPECT_EQ(with({"data.path=\"quoted\""}).data.path[0].path, "quoted");
  EXPECT_EQ(with({"train.out=2024"}).train.out, "2024");
  EXPECT_EQ(with({"train.out=2024-01-02"}).train.out, "2024-01-02");
  EXPECT_EQ(with({"train.out=a\nsteps = 3"}).train.out, "a\nsteps = 3");
  EXPECT_EQ(with({"parallel.pipeline=auto", "devices.count=2"}).parallel.pipeline, std::nullopt);
}

TEST(Config, LetsKeysOverrideAPreset) {
  const Config config = with({"model.hidden=128", "model.layers=3"});

  EXPECT_EQ(config.model.layers, 3);
  EXPECT_EQ(config.model.ffn, 512);  // follows hidden, which was overridden
  EXPECT_EQ(config.model.vocab, 256);
  EXPECT_EQ(with({"model.heads=8"}).model.kv_heads, 8);
  EXPECT_EQ(with({"model.layers=5"}, "[model]\npreset = \"llama-tiny\"").model.kv_heads, 2);
}

TEST(Config, BuildsAModelFromKeysAlone) {
  const Config config = with({}, R"(
    [model]
    kind = "llama"
    layers = 2
    hidden = 96
    heads = 6
    [train]
    sequence = 32)");

  EXPECT_EQ(config.model.kv_heads, 6);
  EXPECT_EQ(config.model.ffn, 256);
  EXPECT_EQ(config.model.vocab, 256);
  EXPECT_EQ(config.model.context, 32);
  EXPECT_FALSE(config.model.tie_embeddings);
}

TEST(Config, LetsTheAxesDecideTheNumberOfDevices) {
  const Config config = with({"parallel.pipeline=4", "parallel.data=2"});

  EXPECT_EQ(config.devices.count, 8);
  EXPECT_EQ(config.numerics.data_shards, 2);
}

TEST(Config, InterleavesWhenADeviceHoldsSeveralStages) {
  EXPECT_EQ(with({"parallel.chunks=2"}).parallel.schedule, "interleaved");
  EXPECT_EQ(with({"parallel.chunks=2", "parallel.schedule=zbv"}).parallel.schedule, "zbv");
}

TEST(Config, PrintsWhatLoadsBackToTheSameConfig) {
  const std::vector<std::vector<std::string>> cases = {
      {},
      {"data.path=a \"b\"\\c\n", "data.validation=0.05", "train.lr=0.1", "train.min_lr=1e-7"},
      {"data.path=[\"a\", \"b\"]", "data.tokenizer=tokenizer.json"},
      {"data.path=[{path = \"a\", weight = 0.7}, {path = \"b\", weight = 3}]"},
      {"data.validation=held/out", "train.dtype=bf16", "train.betas=[0.5, 0]", "data.dtype=u32"},
      {"parallel.pipeline=auto", "parallel.tensor=auto", "parallel.data=auto", "devices.count=4"},
      {"parallel.pipeline=2", "parallel.partition=[1, 3]", "devices.memory=[\"96MiB\", 1000]"},
      {"parallel.zero=auto", "parallel.recompute=auto", "train.microbatch=auto",
       "parallel.schedule=auto", "devices.memory=1.5KiB"},
      {"parallel.recompute=selective"},
      {"parallel.recompute=[\"full\", \"none\", \"selective\", \"full\"]"},
      {"devices.emulate=w=20us,f=5ms,i=0.1,per=layer", "devices.speed=0.5",
       "numerics.data_shards=4"},
      {"train.weight_decay=0", "train.clip=12", "model.rope_theta=123456.789"},
  };
  for (const auto& overrides : cases) {
    const Config config = with(overrides);
    EXPECT_EQ(with({}, to_toml(config)), config) << to_toml(config);
  }
}

TEST(Config, PrintsEveryKeyThatHasAValue) {
  const std::string text = to_toml(with({"data.path=x", "devices.memory=96MiB"}));

  EXPECT_NE(text.find("[data]\npath = \"x\"\n"), std::string::npos) << text;
  EXPECT_NE(text.find("memory = \"96MiB\"\n"), std::string::npos) << text;
  EXPECT_NE(text.find("lr = 0.0003\n"), std::string::npos) << text;
  EXPECT_NE(text.find("partition = \"auto\"\n"), std::string::npos) << text;
  EXPECT_EQ(text.find("speed"), std::string::npos) << text;
}

TEST(Config, StatesTypeErrorsWithValuePlaceAndRule) {
  EXPECT_EQ(refused({}, kTiny + "[train]\n\nbatch = 4\n\nsteps = \"abc\""),
            "train.steps is \"abc\" (a string) at run.toml:7; it must be a whole number ≥ 0");
  EXPECT_EQ(refused({"train.batch=0"}),
            "train.batch is 0 (a whole number) in --set; it must be a whole number ≥ 1");
  EXPECT_EQ(refused({"train.steps=1.5"}),
            "train.steps is 1.5 (a number) in --set; it must be a whole number ≥ 0");
  EXPECT_EQ(refused({"train.lr=0"}),
            "train.lr is 0 (a whole number) in --set; it must be a number > 0");
  EXPECT_EQ(refused({"train.lr=nan"}),
            "train.lr is nan (a number) in --set; it must be a number > 0");
  EXPECT_EQ(refused({"parallel.zero=4"}),
            "parallel.zero is 4 (a whole number) in --set; it must be a whole number from 0 to 3 "
            "or \"auto\"");
  EXPECT_EQ(refused({"parallel.recompute=[\"full\", \"some\"]"}),
            "parallel.recompute is [\"full\", \"some\"] (a list) in --set; it must be \"none\", "
            "\"full\", \"selective\" or \"auto\", or a list with one for each layer");
  EXPECT_EQ(refused({"train.dtype=f16"}),
            "train.dtype is \"f16\" (a string) in --set; it must be \"f32\" or \"bf16\"");
  EXPECT_EQ(refused({"devices.memory=lots"}),
            "devices.memory is \"lots\" (a string) in --set; it must be a size such as \"96MiB\", "
            "or a list with one for each device");
  for (const char* bad : {"gpu", "opencl:", "opencl:x", "opencl:-1", "opencl1", "cpu:0"}) {
    EXPECT_EQ(refused({std::string("devices.kind=") + bad}),
              std::string("devices.kind is \"") + bad +
                  "\" (a string) in --set; it must be \"cpu\", \"opencl\" or \"opencl:N\", or a "
                  "list with one for each device");
  }
  EXPECT_EQ(refused({"devices.emulate=f=5ms,f=5ms,w=1ms"}),
            "devices.emulate is \"f=5ms,f=5ms,w=1ms\" (a string) in --set; it must be times such "
            "as \"f=5ms,i=5ms,w=5ms\"");
  EXPECT_EQ(refused({"train.betas=[0.9, 1]"}),
            "train.betas is [0.9, 1] (a list) in --set; it must be a list of two numbers from 0 "
            "to below 1");
  EXPECT_EQ(refused({}, "train = 3\n"),
            "train is a section and no key (at run.toml:1); give its keys under [train]");
}

TEST(Config, SuggestsTheNearestKey) {
  EXPECT_EQ(refused({"train.step=3"}),
            "there is no key train.step (in --set); did you mean train.steps?");
  EXPECT_EQ(refused({}, "[optimizer]\nlr = 3\n"),
            "there is no key optimizer.lr (at run.toml:2); did you mean train.lr?");
  EXPECT_EQ(refused({"nonsense=3"}), "there is no key nonsense (in --set)");
  EXPECT_EQ(refused({"train.steps"}),
            "--set train.steps has no key=value; write for example --set train.steps=50");
}

TEST(Config, TakesOnlyTextThatCheckpointsCanKeep) {
  EXPECT_EQ(
      refused({"data.path=d\xff.txt"}),
      "data.path is \"d\\xff.txt\" in --set, which is not UTF-8; give a name in UTF-8 without "
      "NUL bytes, such as that of a link");
  EXPECT_EQ(
      refused({"data.validation=\xc3"}),
      "data.validation is \"\\xc3\" in --set, which is not UTF-8; give a name in UTF-8 without "
      "NUL bytes, such as that of a link");
  EXPECT_EQ(
      refused({"train.out=\"nul\\u0000b\""}),
      "train.out is \"nul\\x00b\" in --set, which has a NUL byte; give a name in UTF-8 without "
      "NUL bytes, such as that of a link");
  EXPECT_EQ(refused({}, kTiny + "[train]\nout = \"d\xff\"\n").substr(0, 23),
            "run.toml:4 is not TOML:");
  EXPECT_EQ(with({"data.path=naïve – 漢字\r"}).data.path[0].path, "naïve – 漢字\r");
}

TEST(Config, NamesTheLineThatIsNotToml) {
  const std::string message = refused({}, "[model]\nlayers = = 2\n");

  EXPECT_EQ(message.substr(0, 23), "run.toml:2 is not TOML:") << message;
}

TEST(Config, ChecksTheModel) {
  EXPECT_EQ(refused({"model.heads=5"}),
            "model.hidden 64 is not divisible by model.heads 5; set model.heads to a divisor such "
            "as 4");
  EXPECT_EQ(refused({"model.kind=llama"}),
            "model.kind is \"llama\", but model.preset gpt-tiny is a gpt; leave one of them out");
  EXPECT_EQ(refused({}, "[model]\nhidden = 64\nheads = 4\n"),
            "model.layers is missing; set it, or choose a model.preset or model.from");
  EXPECT_EQ(refused({"train.sequence=65"}),
            "train.sequence 65 is longer than model.context 64; shorten the sequence or enlarge "
            "the context");
}

TEST(Config, ChecksTheTrainingNumbers) {
  EXPECT_EQ(refused({"train.min_lr=1"}),
            "train.min_lr 1 is above train.lr 0.0003; it is what the rate falls to, so make it "
            "smaller");
  EXPECT_EQ(refused({"train.warmup=101"}),
            "train.warmup 101 is more than train.steps 100; warm up for fewer steps");
  EXPECT_EQ(refused({"train.batch=6", "train.microbatch=2", "parallel.data=2"}),
            "train.batch 6 is not divisible by microbatch 2 × 2 data shards (= 4); change "
            "the batch or the microbatch");
  EXPECT_EQ(with({"train.steps=0"}).train.warmup, 0);
}

TEST(Config, ChecksTheLayout) {
  EXPECT_EQ(refused({"devices.count=3", "parallel.pipeline=2"}),
            "pipeline 2 × tensor 1 × data 1 makes 2 devices, but there are 3; change a degree, "
            "or the number of devices");
  EXPECT_EQ(refused({"devices.count=3", "parallel.pipeline=2", "parallel.data=auto"}),
            "pipeline 2 × tensor 1 × data auto cannot multiply to devices.count 3, which is not "
            "divisible by 2; change one of them");
  EXPECT_EQ(refused({"parallel.data=auto"}),
            "devices.count is missing; it is needed when an axis of [parallel] is \"auto\"");
  EXPECT_EQ(refused({"parallel.partition=[1, 2]", "parallel.pipeline=2"}),
            "parallel.partition places 3 layers, but the model has 4; every layer needs one stage");
  EXPECT_EQ(refused({"parallel.partition=[1, 2, 1]", "parallel.pipeline=2", "parallel.chunks=1"}),
            "parallel.partition lists 3 stages, but pipeline 2 × chunks 1 makes 2; list one number "
            "for each stage");
  EXPECT_EQ(refused({"devices.memory=[\"1MiB\", \"2MiB\"]", "parallel.pipeline=3"}),
            "devices.memory lists 2 values for 3 devices; give one value, or one for each device");
  EXPECT_EQ(refused({"devices.kind=[\"cpu\", \"opencl:1\"]", "parallel.pipeline=3"}),
            "devices.kind lists 2 values for 3 devices; give one value, or one for each device");
  EXPECT_EQ(
      refused({"parallel.zero=2"}),
      "parallel.zero 2 shares memory among replicas, but parallel.data is 1; set parallel.data "
      "to 2 or more, or parallel.zero to 0");
  EXPECT_EQ(
      refused({"parallel.recompute=[\"full\", \"none\"]"}),
      "parallel.recompute lists 2 choices, but model.layers is 4; give one for each layer, or "
      "one for all");
  EXPECT_TRUE(refused({"parallel.schedule=1f2b"})
                  .starts_with("unknown schedule '1f2b'; did you mean 1f1b?; known are gpipe,"));
}

TEST(Config, ChecksThatTheLogicalGridFolds) {
  EXPECT_EQ(with({"numerics.data_shards=4", "parallel.data=2"}).numerics.data_shards, 4);
  EXPECT_EQ(refused({"numerics.data_shards=6", "parallel.data=2", "train.batch=12"}),
            "numerics.data_shards 6 is neither parallel.data 2 nor a power of two; sums need one "
            "of them");
  EXPECT_EQ(refused({"numerics.data_shards=2", "parallel.data=4"}),
            "numerics.data_shards 2 cannot be shared by parallel.data 4; choose a degree that "
            "divides the shards");
  EXPECT_EQ(refused({"parallel.tensor=3"}),
            "model.heads 4 cannot be divided among 3 tensor shards; choose a divisor of it");
}

TEST(Config, TakesTheAxesInAnyOrder) {
  const Config config = with({"parallel.order=tensor,data,pipeline"});
  EXPECT_EQ(to_string(config.parallel.order), "tensor,data,pipeline");
  EXPECT_EQ(refused({"parallel.order=tensor,data"}),
            "parallel.order is \"tensor,data\" (a string) in --set; it must be the axes "
            "data, pipeline and tensor in some order, such as \"data,pipeline,tensor\"");
}

TEST(Config, FollowsMpirun) {
  const auto under = [](std::int64_t size, std::vector<std::string> overrides) {
    return parse_config(kTiny, "run.toml", {.overrides = overrides, .world_size = size});
  };
  EXPECT_EQ(under(2, {"parallel.pipeline=2"}).devices.transport, Transport::Mpi);
  EXPECT_EQ(user_error([&] { under(2, {"devices.transport=local"}); }),
            "devices.transport is \"local\", but mpirun or srun started 2 processes; leave the "
            "key out, or start cleave without them");
  EXPECT_EQ(user_error([&] {
              under(2, {"devices.count=4", "parallel.pipeline=4"});
            }),
            "devices.count is 4, but mpirun or srun started 2 processes; make them equal");
  EXPECT_EQ(user_error([&] { under(2, {}); }),
            "mpirun or srun started 2 processes, but pipeline 1 × tensor 1 × data 1 uses 1; set "
            "parallel.pipeline=2 (or data or tensor, or \"auto\"), or start 1");
  EXPECT_EQ(
      user_error([&] { under(3, {"parallel.data=2"}); }),
      "mpirun or srun started 3 processes, but pipeline 1 × tensor 1 × data 2 uses 2; let the "
      "axes of [parallel] make 3, or start 2");
}

TEST(Config, ReadsFilesAndNamesThemWhenItCannot) {
  const auto path = std::filesystem::path(::testing::TempDir()) / "config_test.toml";
  std::ofstream(path) << kTiny << "[train]\nsteps = 3\n";
  EXPECT_EQ(load_config(path).train.steps, 3);

  EXPECT_EQ(user_error([] { load_config("/nowhere/run.toml"); }),
            "cannot read /nowhere/run.toml: No such file or directory");
  EXPECT_EQ(user_error([] { load_config("/"); }), "cannot read /: it is a directory");
}

TEST(Config, ExplainsEveryKeyInHelp) {
  const std::string help = config_help();
  for (const Key& key : config_keys()) {
    EXPECT_NE(help.find("\n  " + std::string(key.short_name()) + " "), std::string::npos)
        << key.name;
    EXPECT_FALSE(key.help.empty()) << key.name;
  }
}

TEST(Config, ShowsTheDefaultOfEveryKeyInHelp) {
  const std::string help = config_help();
  EXPECT_NE(help.find("optimizer updates (a whole number ≥ 0; default 100)\n"), std::string::npos);
  EXPECT_NE(help.find("train.lr / 10)\n"), std::string::npos);
  const Config defaults;
  for (const Key& key : config_keys()) {
    const bool constant = key.get(defaults).has_value();
    EXPECT_TRUE(constant || !key.otherwise.empty()) << key.name << " has no default to show";
  }
}

TEST(Config, TakesTheExampleOfEveryKey) {
  for (const Key& key : config_keys()) {
    const std::string text(key.name);
    const std::string section = text.substr(0, text.rfind('.'));
    const auto entries = read_toml(
        "[" + section + "]\n" + text.substr(section.size() + 1) + " = " + example_of(key) + "\n",
        "example");
    Config config;
    ASSERT_EQ(entries.size(), 1u) << key.name;
    EXPECT_NO_THROW(apply(entries[0], config)) << key.name << " = " << example_of(key);
  }
}

TEST(Config, KeepsHelpWithinEightyColumns) {
  std::istringstream help(config_help());
  for (std::string line; std::getline(help, line);) {
    const auto columns = std::ranges::count_if(line, [](unsigned char c) { return c >> 6 != 2; });
    EXPECT_LE(columns, 80) << line;
  }
}

TEST(Config, NamesAllThingsThatAreWrongAtOnce) {
  EXPECT_EQ(refused({"train.steps=abc", "train.stepz=3", "train.lr=-1"}),
            "3 things are wrong:\n"
            "  - train.steps is \"abc\" (a string) in --set; it must be a whole number ≥ 0\n"
            "  - there is no key train.stepz (in --set); did you mean train.steps?\n"
            "  - train.lr is -1 (a whole number) in --set; it must be a number > 0");
  EXPECT_EQ(refused({}, "[train]\nsteps = 1\n[model]\nheads = 2\n"),
            "2 things are wrong:\n"
            "  - model.layers is missing; set it, or choose a model.preset or model.from\n"
            "  - model.hidden is missing; set it, or choose a model.preset or model.from");
  EXPECT_EQ(refused({"train.warmup=200", "parallel.zero=1"}),
            "2 things are wrong:\n"
            "  - train.warmup 200 is more than train.steps 100; warm up for fewer steps\n"
            "  - parallel.zero 1 shares memory among replicas, but parallel.data is 1; set "
            "parallel.data to 2 or more, or parallel.zero to 0");
}

TEST(Config, SaysThatItIsTooOldForAConfigOfANewerVersion) {
  EXPECT_EQ(with({}, "cleave = \"0.1\"\n" + kTiny), with({}));
  EXPECT_EQ(refused({}, "cleave = \"99.1\"\n" + kTiny),
            "the config is for cleave 99.1 (at run.toml:1), and this is " + std::string(version()) +
                "; install that version, or take out the line and see");
  EXPECT_EQ(refused({}, "cleave = \"new\"\n" + kTiny),
            "cleave is \"new\" (a string) at run.toml:1; it must be the version for which the "
            "config was written, such as \"" +
                std::string(version()) + "\"");
}

const std::string kImages =
    "[model]\nkind = \"vit\"\nlayers = 2\nhidden = 32\nheads = 2\nimage = 28\npatch = 7\nclasses = "
    "10\n";

TEST(Config, CountsThePatchesOfImagesAsASequence) {
  const Config config = with({}, kImages);

  EXPECT_EQ(config.train.sequence, 17);
  EXPECT_EQ(config.model.channels, 3);
  EXPECT_EQ(data_query(config).images.side, 28);
  const std::string saved = to_toml(config);
  EXPECT_EQ(saved.find("vocab"), std::string::npos);
  EXPECT_EQ(parse_config(saved, "saved.toml", {}).model, config.model);
  EXPECT_EQ(to_toml(with({})).find("patch"), std::string::npos);
}

TEST(Config, KeepsKeysOfImagesAndOfTokensApart) {
  EXPECT_EQ(refused({"train.sequence=9"}, kImages),
            "train.sequence is of models that read tokens, and a vit reads images; leave it out");
  EXPECT_EQ(refused({"model.patch=4"}),
            "model.image, patch, channels, classes and gelu are of models that read images, and a "
            "gpt reads tokens; leave them out");
}

}  // namespace
}  // namespace cleave::train
