// Room for images that a microbatch does not have is planned and neither computed nor summed, so
// that `data.images` changes no bit.

#include <string>
#include <vector>

#include "app/vlm_run.h"
#include <fmt/format.h>
#include <gtest/gtest.h>

namespace cleave {
namespace {

using json = nlohmann::json;

/// Samples have up to two images, and some microbatch has two in each.
constexpr int kFull = 2;

class RoomForImages : public testing::VlmRun {
 protected:
  json run(const std::string& flags) {
    return train("room", "--set train.steps=3 --overwrite " + flags);
  }

  /// One hash for every room and layout of `grid`, in f32 and bf16.
  void expect_one_hash(const std::string& grid, const std::vector<std::string>& layouts) {
    for (const std::string dtype : {"f32", "bf16"}) {
      const std::string common = fmt::format("{} --set train.dtype={} ", grid, dtype);
      const json full = run(common + fmt::format("--set data.images={}", kFull));
      for (const int room : {kFull, kFull + 1, 4, 8}) {
        for (const std::string& layout : layouts) {
          const std::string flags = common + fmt::format("--set data.images={} {}", room, layout);
          SCOPED_TRACE(flags);
          const json roomy = run(flags);
          EXPECT_EQ(roomy["weights"], full["weights"]);
          EXPECT_EQ(roomy["loss"], full["loss"]);
          EXPECT_EQ(roomy["validation_loss"], full["validation_loss"]);
          for (const json& device : roomy["devices"]) {
            EXPECT_EQ(device["peak_bytes"], device["planned_bytes"]);
            EXPECT_EQ(device["sent"], device["planned_sent"]);
          }
        }
      }
    }
  }
};

TEST_F(RoomForImages, ChangesNoBitWhereAllLearns) {
  expect_one_hash("", {"", "--set parallel.pipeline=2 --set parallel.recompute=full",
                       "--set parallel.pipeline=2 --set parallel.data=2 --set parallel.zero=3 "
                       "--set parallel.placement=own --set parallel.vision.pipeline=1"});
}

TEST_F(RoomForImages, ChangesNoBitWhereTheTowerIsFrozenOrKept) {
  expect_one_hash("--set 'model.train=[\"projector\"]'",
                  {"", "--set data.cache=true", "--set parallel.pipeline=2 --set data.cache=true"});
}

TEST_F(RoomForImages, ChangesNoBitOfTensorShards) {
  expect_one_hash("--set numerics.tensor_shards=2",
                  {"", "--set parallel.tensor=2",
                   "--set parallel.tensor=2 --set parallel.sequence_parallel=true "
                   "--set parallel.recompute=selective"});
}

// A tower of one device and a language model of two, and the other way round. The shards of a
// module are its own.
TEST_F(RoomForImages, ChangesNoBitWhereTensorDegreesDiffer) {
  const auto degrees = [](int vision, int language, const std::string& more = "") {
    return fmt::format(
        "--set parallel.placement=own --set parallel.pipeline=2 --set parallel.vision.pipeline=1 "
        "--set parallel.vision.tensor={} --set parallel.language.tensor={} {}",
        vision, language, more);
  };
  expect_one_hash("--set numerics.tensor_shards=2 --set numerics.vision.tensor_shards=1",
                  {degrees(1, 2), degrees(1, 2, "--set parallel.data=2 --set parallel.zero=1")});
  expect_one_hash("--set numerics.tensor_shards=1 --set numerics.vision.tensor_shards=2",
                  {degrees(2, 1), degrees(2, 1, "--set parallel.recompute=full")});
}

// The device of the embedding plans what it sends to that of the head.
TEST_F(RoomForImages, ChangesNoBitOfTiedWeights) {
  expect_one_hash("--set model.tie_embeddings=true", {"", "--set parallel.pipeline=2"});
}

TEST_F(RoomForImages, ChangesNoBitOfTowersThatFeedSeveralLayers) {
  expect_one_hash("--set model.vision.layers=3 --set model.vision.deepstack=[0,1]",
                  {"", "--set parallel.pipeline=2 --set parallel.schedule=zb-h1"});
}

TEST_F(RoomForImages, MayChangeWhereARunGoesOn) {
  const std::string saved = "--set train.checkpoint_every=2 --set train.steps=4 ";
  const json whole = train("whole", saved);
  const json resumed = train("again", saved + "--set data.images=5 --resume=" + dir_.path("whole") +
                                          "/checkpoints/step-00000002");
  EXPECT_EQ(resumed["weights"], whole["weights"]);
}

}  // namespace
}  // namespace cleave
