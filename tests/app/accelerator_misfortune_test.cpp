// Drivers and disks that fail: one sentence, the right code, and nothing that was saved is lost.

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <regex>
#include <sstream>

#include "app/mounted.h"
#include "app/tiny_run.h"
#include <gtest/gtest.h>

namespace cleave {
namespace {

namespace fs = std::filesystem;
using testing::Answer;
using testing::TinyRun;

/// Runs `cleave train` with a driver that fails as FAULTY_OPENCL says.
Answer with_fault(const TinyRun& run, const std::string& fault, const TinyRun::Keys& keys = {},
                  const TinyRun::Keys& flags = {}) {
  std::vector<std::string> command = {"env", "LD_PRELOAD=" CLEAVE_FAULTY_OPENCL,
                                      "FAULTY_OPENCL=" + fault};
  if (fault == "build") command.push_back("XDG_CACHE_HOME=" + run.path("cache"));
  if (fault == "names") command.push_back("POCL_DEVICES=pthread pthread");
  for (const std::string& word : run.command(keys, flags)) command.push_back(word);
  return testing::run(command);
}

bool has_accelerator() {
  static const bool has =
      !nlohmann::json::parse(
           testing::run(testing::cleave_command({"doctor", "--json"})).out)["accelerators"]
           .empty();
  return has;
}

/// Exactly one line, which begins as all errors do.
void expect_one_sentence(const std::string& said) {
  EXPECT_TRUE(said.starts_with("cleave: ")) << said;
  EXPECT_EQ(std::ranges::count(said, '\n'), 1) << said;
}

TEST(FaultyAccelerator, ThatCompilesNothingKeepsItsLog) {
  if (!has_accelerator()) GTEST_SKIP();
  const TinyRun run({"train.steps=1", "devices.kind=opencl"});
  const Answer answer = with_fault(run, "build");
  EXPECT_EQ(answer.exit, 2) << answer.err;
  expect_one_sentence(answer.err);
  std::smatch found;
  const std::regex named("does not compile the kernels; its messages are in (.*\\.log); update");
  ASSERT_TRUE(std::regex_search(answer.err, found, named)) << answer.err;
  std::ifstream log(found[1].str());
  std::stringstream text;
  text << log.rdbuf();
  EXPECT_EQ(text.str(), "faulty: no kernels today");
  EXPECT_FALSE(fs::exists(run.out() + "/checkpoints/latest"));
}

TEST(FaultyAccelerator, WithLessMemoryThanItAnnouncesIsRefusedWithTheNumbers) {
  if (!has_accelerator()) GTEST_SKIP();
  const TinyRun run({"train.steps=1", "devices.kind=opencl"});
  for (const char* fault : {"memory", "pages"}) {
    const Answer answer = with_fault(run, fault, {}, {"--overwrite"});
    EXPECT_EQ(answer.exit, 3) << fault << answer.err;
    expect_one_sentence(answer.err);
    EXPECT_TRUE(std::regex_search(
        answer.err,
        std::regex("opencl:0 \\(.*\\) announces .*B and does not give the .*B that the "
                   "device's plan needs \\(.*\\); use a smaller model or more devices")))
        << answer.err;
  }
}

TEST(FaultyAccelerator, ThatIsLostInTheMiddleLosesNothingThatWasSaved) {
  if (!has_accelerator()) GTEST_SKIP();
  const TinyRun::Keys keys = {"train.steps=40", "train.checkpoint_every=2", "model.layers=2",
                              "numerics.data_shards=2", "numerics.tensor_shards=2"};
  const TinyRun run(keys);
  const TinyRun whole(keys);
  const auto expected = whole.report();
  for (const char* devices :
       {"devices.count=1", "parallel.pipeline=2", "parallel.data=2", "parallel.tensor=2"}) {
    fs::remove_all(run.out());
    const Answer lost = with_fault(run, "after:" + run.out() + "/checkpoints/latest",
                                   {"devices.kind=opencl", devices});
    EXPECT_EQ(lost.exit, 4) << lost.err;
    expect_one_sentence(lost.err);
    EXPECT_NE(lost.err.find(") was lost at "), std::string::npos) << lost.err;
    EXPECT_NE(lost.err.find("go on with --resume"), std::string::npos) << lost.err;
    ASSERT_EQ(testing::run(testing::cleave_command({"checkpoint", "verify", run.out()})).exit, 0);
    const auto resumed = run.report({}, {"--resume"});
    EXPECT_EQ(resumed["weights"], expected["weights"]);
  }
}

TEST(UnlikeAccelerators, AreRefusedForTheBitsOfALibrary) {
  if (!has_accelerator()) GTEST_SKIP();
  const std::string parts = testing::run(testing::cleave_command({"version"})).out;
  if (parts.find("clblast") == std::string::npos) GTEST_SKIP() << parts;
  const TinyRun run({"train.steps=1", "parallel.pipeline=2", "devices.kind=opencl"});
  const Answer unlike = with_fault(run, "names", {"numerics.exact=false"});
  EXPECT_EQ(unlike.exit, 2) << unlike.err;
  expect_one_sentence(unlike.err);
  EXPECT_TRUE(std::regex_search(
      unlike.err,
      std::regex(
          "numerics.exact is false, but accelerators are of several sorts \\(.*faulty: another "
          "sort.*\\), and so bits would depend on who computes what; leave numerics.exact "
          "out, or choose devices that are alike")))
      << unlike.err;
  EXPECT_FALSE(fs::exists(run.out() + "/checkpoints/latest"));

  const Answer exact = with_fault(run, "names");
  EXPECT_EQ(exact.exit, 0) << exact.err;
}

TEST(SpillDisk, ThatIsFullIsRefusedBeforeTheFirstStep) {
  const TinyRun run({"train.steps=2", "parallel.offload=optimizer", "train.checkpoint_every=0"});
  const testing::Mounted small(run.path("small"), "size=64k");
  if (!small) GTEST_SKIP() << "this process may not mount";
  const Answer answer = run.train({"devices.spill=" + run.path("small")});
  EXPECT_EQ(answer.exit, 3) << answer.err;
  expect_one_sentence(answer.err);
  EXPECT_NE(answer.err.find("does not give the "), std::string::npos) << answer.err;
  EXPECT_NE(answer.err.find("No space left on device; make room, name another directory, or set "
                            "parallel.offload to \"none\""),
            std::string::npos)
      << answer.err;
}

}  // namespace
}  // namespace cleave
