#include "cleave/train/config/config.h"

#include <filesystem>
#include <fstream>

#include "train/tiny_config.h"
#include <gtest/gtest.h>

#include "cleave/model/presets.h"

namespace cleave::train {
namespace {

using testing::config_with;
using testing::kTinyConfig;
using testing::refused_config;
using testing::user_error;

TEST(Config, FillsInDefaults) {
  const Config config = config_with({});

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
  const std::string file = kTinyConfig + "[train]\nsteps = 7\nbatch = 4\n";

  EXPECT_EQ(config_with({}, file).train.steps, 7);
  EXPECT_EQ(config_with({"train.steps=8", "train.steps = 9"}, file).train.steps, 9);
  EXPECT_EQ(config_with({"train.steps=8"}, file).train.batch, 4);
}

TEST(Config, TakesDefaultsOfASavedRunWhereNothingElseIsSaid) {
  const auto resumed = [](const std::string& text, std::vector<std::string> overrides = {}) {
    return parse_config(kTinyConfig + text, "run.toml",
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
  const Config config = config_with({"train.microbatch=2", "parallel.data=2"});
  EXPECT_EQ(grid_of(config),
            "train.microbatch = 2\nnumerics.data_shards = 2\nnumerics.tensor_shards = 1\n");
}

TEST(Config, SavesNowAndThenByDefault) {
  EXPECT_EQ(config_with({"train.steps=20"}).train.checkpoint_every, 25);
  EXPECT_EQ(config_with({"train.steps=400"}).train.checkpoint_every, 40);
  EXPECT_EQ(config_with({"train.steps=100000"}).train.checkpoint_every, 250);
  EXPECT_EQ(config_with({"train.steps=400", "train.checkpoint_every=0"}).train.checkpoint_every, 0);
}

TEST(Config, KeepsSizesThatADoubleDoesNotHold) {
  const Config config = config_with({"devices.memory=9007199254740993"});
  EXPECT_EQ(parse_config(to_toml(config), "again").devices.memory[0], 9007199254740993);
}

TEST(Config, HoldsSizesWithoutAUnitToTheLimitOfThoseWithOne) {
  const Config most = config_with({"devices.host_memory=4611686018427387904"});
  EXPECT_EQ(parse_config(to_toml(most), "again"), most);
  EXPECT_THROW(config_with({"devices.host_memory=4611686018427387905"}), UserError);
}

TEST(Config, ReadsAnOverrideThatIsNotTomlAsAString) {
  EXPECT_EQ(config_with({"data.path=some/dir with blanks"}).data.path[0].path,
            "some/dir with blanks");
  EXPECT_EQ(config_with({"data.path=\"quoted\""}).data.path[0].path, "quoted");
  EXPECT_EQ(config_with({"train.out=2024"}).train.out, "2024");
  EXPECT_EQ(config_with({"train.out=2024-01-02"}).train.out, "2024-01-02");
  EXPECT_EQ(config_with({"train.out=a\nsteps = 3"}).train.out, "a\nsteps = 3");
  EXPECT_EQ(config_with({"parallel.pipeline=auto", "devices.count=2"}).parallel.pipeline,
            std::nullopt);
}

TEST(Config, LetsKeysOverrideAPreset) {
  const Config config = config_with({"model.hidden=128", "model.layers=3"});

  EXPECT_EQ(config.model.layers, 3);
  EXPECT_EQ(config.model.ffn, 512);  // follows hidden, which was overridden
  EXPECT_EQ(config.model.vocab, 256);
  EXPECT_EQ(config_with({"model.heads=8"}).model.kv_heads, 8);
  EXPECT_EQ(config_with({"model.layers=5"}, "[model]\npreset = \"llama-tiny\"").model.kv_heads, 2);
}

TEST(Config, BuildsAModelFromKeysAlone) {
  const Config config = config_with({}, R"(
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
  const Config config = config_with({"parallel.pipeline=4", "parallel.data=2"});

  EXPECT_EQ(config.devices.count, 8);
  EXPECT_EQ(config.numerics.data_shards, 2);
}

TEST(Config, InterleavesWhenADeviceHoldsSeveralStages) {
  EXPECT_EQ(config_with({"parallel.chunks=2"}).parallel.schedule, "interleaved");
  EXPECT_EQ(config_with({"parallel.chunks=2", "parallel.schedule=zbv"}).parallel.schedule, "zbv");
}

TEST(Config, PrintsWhatLoadsBackToTheSameConfig) {
  const std::vector<std::vector<std::string>> cases = {
      {},
      {"data.path=a \"b\"\\c\n", "data.validation=0.05", "train.lr=0.1", "train.min_lr=1e-7"},
      {"data.path=[\"a\", \"b\"]", "data.tokenizer=tokenizer.json"},
      {"data.path=[{path = \"a\", weight = 0.7}, {path = \"b\", weight = 3}]"},
      {"data.validation=held/out", "train.dtype=bf16", "train.betas=[0.5, 0]", "data.dtype=u32"},
      {"train.rates=[[1, 0.5], [10, 1e-3], [20, 0]]", "model.preset=llama-tiny", "model.window=8",
       "model.full_layers=[0, 3]", "model.nope_layers=2"},
      {"parallel.pipeline=auto", "parallel.tensor=auto", "parallel.data=auto", "devices.count=4"},
      {"parallel.pipeline=2", "parallel.partition=[1, 3]", "devices.memory=[\"96MiB\", 1000]"},
      {"parallel.zero=auto", "parallel.recompute=auto", "train.microbatch=auto",
       "parallel.schedule=auto", "devices.memory=1.5KiB"},
      {"parallel.recompute=selective"},
      {"parallel.recompute=[\"full\", \"none\", \"selective\", \"full\"]"},
      {"devices.emulate=w=20us,f=5ms,i=0.1,per=layer", "devices.speed=0.5",
       "numerics.data_shards=4"},
      {"train.weight_decay=0", "train.clip=12", "model.preset=llama-tiny",
       "model.rope_theta=123456.789"},
  };
  for (const auto& overrides : cases) {
    const Config config = config_with(overrides);
    EXPECT_EQ(config_with({}, to_toml(config)), config) << to_toml(config);
  }
}

TEST(Config, PrintsEveryKeyThatHasAValue) {
  const std::string text = to_toml(config_with({"data.path=x", "devices.memory=96MiB"}));

  EXPECT_NE(text.find("[data]\npath = \"x\"\n"), std::string::npos) << text;
  EXPECT_NE(text.find("memory = \"96MiB\"\n"), std::string::npos) << text;
  EXPECT_NE(text.find("lr = 0.0003\n"), std::string::npos) << text;
  EXPECT_NE(text.find("partition = \"auto\"\n"), std::string::npos) << text;
  EXPECT_EQ(text.find("speed"), std::string::npos) << text;
}

TEST(Config, TakesTheAxesInAnyOrder) {
  const Config config = config_with({"parallel.order=tensor,data,pipeline"});
  EXPECT_EQ(to_string(config.parallel.order), "tensor,data,pipeline");
  EXPECT_EQ(refused_config({"parallel.order=tensor,data"}),
            "parallel.order is \"tensor,data\" (a string) in --set; it must be the axes "
            "data, pipeline and tensor in some order, such as \"data,pipeline,tensor\"");
}

TEST(Config, FollowsMpirun) {
  const auto under = [](std::int64_t size, std::vector<std::string> overrides) {
    return parse_config(kTinyConfig, "run.toml", {.overrides = overrides, .world_size = size});
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
  std::ofstream(path) << kTinyConfig << "[train]\nsteps = 3\n";
  EXPECT_EQ(load_config(path).train.steps, 3);

  EXPECT_EQ(user_error([] { load_config("/nowhere/run.toml"); }),
            "cannot read /nowhere/run.toml: No such file or directory");
  EXPECT_EQ(user_error([] { load_config("/"); }), "cannot read /: it is a directory");
}

const std::string kImages =
    "[model]\nkind = \"vit\"\nlayers = 2\nhidden = 32\nheads = 2\nimage = 28\npatch = 7\nclasses = "
    "10\n";

TEST(Config, CountsThePatchesOfImagesAsASequence) {
  const Config config = config_with({}, kImages);

  EXPECT_EQ(config.train.sequence, 17);
  EXPECT_EQ(config.model.channels, 3);
  EXPECT_EQ(data_query(config).images.side, 28);
  const std::string saved = to_toml(config);
  EXPECT_EQ(saved.find("vocab"), std::string::npos);
  EXPECT_EQ(parse_config(saved, "saved.toml", {}).model, config.model);
  EXPECT_EQ(to_toml(config_with({})).find("patch"), std::string::npos);
}

TEST(Config, NeedsNoPatchesOfModelsThatReadSinglePixels) {
  const Config config = config_with({},
                                    "[model]\nkind = \"unet\"\nlayers = 4\nhidden = 8\nheads = 1\n"
                                    "image = 32\nclasses = 10\n");

  EXPECT_EQ(config.model.patch, 1);
  EXPECT_EQ(config.train.sequence, 32 * 32 + 1);
}

TEST(Config, KeepsKeysOfImagesAndOfTokensApart) {
  EXPECT_EQ(refused_config({"train.sequence=9"}, kImages),
            "train.sequence is of models that read tokens, and a vit reads images; leave it out");
  EXPECT_EQ(refused_config({"model.patch=4"}),
            "model.image, patch, channels, classes and gelu are of models that read images, and a "
            "gpt reads tokens; leave them out");
}

}  // namespace
}  // namespace cleave::train
