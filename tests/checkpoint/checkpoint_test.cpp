#include <thread>

#include "checkpoint/sample_checkpoint.h"
#include "support/errors.h"
#include "support/temporary_directory.h"
#include <gtest/gtest.h>

#include "cleave/base/tensor_sum.h"
#include "cleave/checkpoint/inspect.h"
#include "cleave/checkpoint/manifest.h"

namespace cleave::checkpoint {
namespace {

using cleave::testing::random_values;
using cleave::testing::TemporaryDirectory;
using cleave::testing::user_error;

TEST(TensorSum, OfSlicesAddsUpToTheSumOfTheWhole) {
  const auto all = random_values(1000, 1);
  const auto bytes = std::as_bytes(std::span(all));
  std::uint64_t sum = 0;
  for (std::int64_t first : {700, 0, 3}) {
    const std::int64_t end = first == 700 ? 1000 : first == 0 ? 3 : 700;
    sum += tensor_sum(bytes.subspan(4 * first, 4 * (end - first)), first);
  }
  EXPECT_EQ(sum, tensor_sum(bytes, 0));
}

TEST(TensorSum, NoticesEveryFlippedBitAndEveryExchange) {
  std::vector<std::uint32_t> all = {0, 1, 0, 0x80000000, 7};
  const auto sum = [&] { return tensor_sum(std::as_bytes(std::span(all)), 0); };
  const std::uint64_t before = sum();
  for (std::uint32_t& element : all) {
    for (int bit = 0; bit < 32; ++bit) {
      element ^= 1u << bit;
      EXPECT_NE(sum(), before);
      element ^= 1u << bit;
    }
  }
  std::swap(all[1], all[2]);
  EXPECT_NE(sum(), before);
}

TEST(Checkpoint, GivesBackWhatOneWriterSaved) {
  const TemporaryDirectory dir;
  save(dir.path(), 100);

  EXPECT_EQ(names_in(dir.path()), (std::vector<std::string>{"latest", "step-00000100"}));
  EXPECT_EQ(names_in(dir.path() / "latest"),
            (std::vector<std::string>{"manifest.json", "model.safetensors", "optimizer.safetensors",
                                      "state.json"}));
  expect_content(dir.path() / "latest", 100);
}

TEST(Checkpoint, HasTheSameBytesHoweverManyWrite) {
  const TemporaryDirectory one, four;
  save(one.path(), 5);

  const CheckpointLayout layout(kParameters);
  prepare_checkpoint(four.path(), 5, layout);
  std::vector<std::thread> writers;
  for (int i = 0; i < 4; ++i) {
    writers.emplace_back([&, i] { write_slices(four.path(), 5, layout, i, 4, 3); });
  }
  for (std::thread& writer : writers) writer.join();
  commit_checkpoint(four.path(), layout, state_at(5), 4, 2);

  expect_content(four.path() / "latest", 5);
  for (const std::string& name : names_in(one.path() / "latest")) {
    EXPECT_EQ(read_text(one.path() / "latest" / name), read_text(four.path() / "latest" / name))
        << name;
  }
}

TEST(Checkpoint, ReadsAnySlice) {
  const TemporaryDirectory dir;
  save(dir.path(), 1);
  std::vector<float> slice(10);
  CheckpointReader(dir.path() / "latest").read_slot("h.0.weight", "momentum", 1000, slice);

  const auto all = values(static_cast<Part>(0), 1, 1);
  EXPECT_EQ(slice, std::vector<float>(all.begin() + 1000, all.begin() + 1010));
}

TEST(Checkpoint, WillNotCommitWhatIsIncomplete) {
  const TemporaryDirectory dir;
  save(dir.path(), 1);
  const CheckpointLayout layout(kParameters);
  prepare_checkpoint(dir.path(), 2, layout);
  write_slices(dir.path(), 2, layout, 0, 2, 4);  // writer 1 of 2 never comes
  CheckpointWriter(dir.path(), 2, layout, 1).finish();

  EXPECT_THROW(commit_checkpoint(dir.path(), layout, state_at(2), 2, 2), InternalError);

  EXPECT_EQ(names_in(dir.path()), (std::vector<std::string>{"latest", "step-00000001"}));
  expect_content(dir.path() / "latest", 1);
}

TEST(Checkpoint, KeepsTheNewest) {
  const TemporaryDirectory dir;
  for (std::int64_t step : {10, 20, 30}) save(dir.path(), step);
  EXPECT_EQ(list_checkpoints(dir.path()), (std::vector<std::int64_t>{20, 30}));

  save(dir.path(), 40, 1);
  EXPECT_EQ(names_in(dir.path()), (std::vector<std::string>{"latest", "step-00000040"}));
}

TEST(Checkpoint, ReplacesTheSameStep) {
  const TemporaryDirectory dir;
  save(dir.path(), 10);
  flip_bit(dir.path() / "latest" / kStateFile, 5);
  save(dir.path(), 10);

  EXPECT_EQ(names_in(dir.path()), (std::vector<std::string>{"latest", "step-00000010"}));
  expect_content(dir.path() / "latest", 10);
}

TEST(Checkpoint, IsFoundByWhatAUserMayMean) {
  const TemporaryDirectory dir;
  const fs::path root = dir.path() / "checkpoints";
  EXPECT_EQ(
      user_error([&] { find_checkpoint(dir.path()); }),
      "there is no checkpoint in " + dir.path().string() +
          "; give a step-… directory, the out directory of a run, or a Hugging Face directory");
  save(root, 10);
  save(root, 20);

  EXPECT_EQ(find_checkpoint(dir.path()), root / "step-00000020");
  EXPECT_EQ(find_checkpoint(root), root / "step-00000020");
  EXPECT_EQ(find_checkpoint(root / "step-00000010"), root / "step-00000010");
  fs::remove(root / "step-00000010" / kManifestFile);
  EXPECT_EQ(find_checkpoint(root / "step-00000010/"), root / "step-00000010/");
  fs::remove(root / "latest");
  EXPECT_EQ(latest_checkpoint(root), root / "step-00000020");
}

TEST(Checkpoint, DescribesItself) {
  const TemporaryDirectory dir;
  save(dir.path(), 10);
  const CheckpointReader checkpoint(dir.path() / "latest");

  const std::string text = inspect_text(checkpoint);
  EXPECT_NE(text.find("step 10, seed 7, saved by cleave 1.2.3\n2155 parameters in 4 tensors, "),
            std::string::npos)
      << text;
  EXPECT_NE(text.find("\nh.0.weight                                   [64, 33]"),
            std::string::npos);
  const std::string json = inspect_json(checkpoint);
  EXPECT_NE(json.find(R"("parameters":2155)"), std::string::npos) << json;
  EXPECT_NE(json.find(R"({"name":"wte.weight","shape":[7,5]})"), std::string::npos) << json;
}

TEST(Checkpoint, RefusesAnotherArchitecture) {
  const TemporaryDirectory dir;
  save(dir.path(), 3);
  const CheckpointReader reader(dir.path() / "latest");
  const std::string model = (dir.path() / "latest" / kModelFile).string();
  EXPECT_NO_THROW(reader.expect(kParameters));

  auto other = kParameters;
  other[1].shape = {33, 64};
  EXPECT_EQ(user_error([&] { reader.expect(other); }),
            model +
                " has tensor \"h.0.weight\" of shape [64, 33], but this model needs [33, 64]; it "
                "was saved from a model of another architecture");
  other = kParameters;
  other.push_back({"h.1.weight", {2}});
  EXPECT_EQ(
      user_error([&] { reader.expect(other); }),
      model + " has no tensor \"h.1.weight\"; it was saved from a model of another architecture");
  other = kParameters;
  other.pop_back();
  EXPECT_EQ(user_error([&] { reader.expect(other); }),
            model +
                " has tensor \"ln_f.bias\", which this model has not; it was saved from a model "
                "of another architecture");
}

}  // namespace
}  // namespace cleave::checkpoint
