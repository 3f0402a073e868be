// Real MPI processes, started by mpirun as users do.

#include <csignal>
#include <filesystem>
#include <thread>

#include "app/mounted.h"
#include "app/tiny_run.h"
#include <gtest/gtest.h>

namespace cleave {
namespace {

using nlohmann::json;
using std::chrono::seconds;
using testing::Answer;
using testing::Process;
using testing::TinyRun;
using Keys = TinyRun::Keys;

int lines_of_cleave(const std::string& text) {
  int count = 0;
  for (std::size_t at = 0; (at = text.find("cleave: ", at)) != std::string::npos; ++at) ++count;
  return count;
}

// ── Same bits ────────────────────────────────────────────────────────────────────────────────────

struct Layout {
  int ranks;
  Keys keys;
};

std::vector<Layout> layouts() {
  return {{1, {}},
          {2, {"parallel.pipeline=2"}},
          {4, {"parallel.pipeline=4", "parallel.schedule=zb-h1"}},
          {4, {"parallel.pipeline=2", "parallel.data=2", "parallel.schedule=auto"}}};
}

std::vector<Layout> tensor_layouts() {
  return {{4, {"parallel.tensor=2", "parallel.pipeline=2"}},
          {4, {"parallel.tensor=2", "parallel.data=2", "parallel.zero=1"}},
          {4, {"parallel.tensor=2", "parallel.pipeline=2", "parallel.order=tensor,data,pipeline"}},
          {4, {"parallel.data=2", "parallel.pipeline=2", "parallel.order=pipeline,data,tensor"}}};
}

/// Every layout over threads and over ranks gives what one device gives.
void expect_same_bits(const TinyRun& run, const std::vector<Layout>& all) {
  const json alone = run.report();
  ASSERT_TRUE(alone.contains("weights")) << alone;
  for (const Layout& layout : all) {
    const json local = run.report(layout.keys, {"--overwrite"});
    const json mpi = run.report(layout.keys, {"--overwrite"}, layout.ranks);
    for (const json& report : {local, mpi}) {
      ASSERT_TRUE(report.contains("weights")) << report;
      EXPECT_EQ(report["weights"], alone["weights"]) << layout.ranks;
      EXPECT_EQ(report["loss"], alone["loss"]) << layout.ranks;
      EXPECT_EQ(report["devices"].size(), layout.ranks);
      for (const json& device : report["devices"]) {
        EXPECT_EQ(device["peak_bytes"], device["planned_bytes"]);
        EXPECT_EQ(device["sent"], device["planned_sent"]);
      }
    }
  }
}

class MpiSameBits : public ::testing::TestWithParam<std::tuple<const char*, const char*>> {};

TEST_P(MpiSameBits, AsOneLocalDevice) {
  const auto& [kind, dtype] = GetParam();
  expect_same_bits(TinyRun({"numerics.data_shards=2", std::string("model.kind=") + kind,
                            std::string("train.dtype=") + dtype, "model.kv_heads=4"}),
                   layouts());
}

TEST(MpiSameBitsOfShards, AsOneLocalDevice) {
  const Keys shards = {"numerics.data_shards=2", "numerics.tensor_shards=2", "train.steps=3"};
  for (const Keys& model : {Keys{"model.kind=gpt", "train.dtype=f32"},
                            Keys{"model.kind=llama", "model.kv_heads=1", "train.dtype=bf16"}}) {
    Keys keys = shards;
    keys.insert(keys.end(), model.begin(), model.end());
    expect_same_bits(TinyRun(keys), tensor_layouts());
  }
}

INSTANTIATE_TEST_SUITE_P(Models, MpiSameBits,
                         ::testing::Combine(::testing::Values("gpt", "llama"),
                                            ::testing::Values("f32", "bf16")));

// Ranks plan each for itself, from numbers that they share, and run only if they agree.
TEST(MpiAuto, PlansAsOneAndGivesTheWeightsOfALocalRun) {
  const TinyRun run({"numerics.data_shards=4", "numerics.tensor_shards=2", "train.steps=5"});
  const std::string cache = "XDG_CACHE_HOME";
  ::setenv(cache.c_str(), run.path("cache").c_str(), 1);
  const json alone = run.report();
  Keys open = {"devices.count=4"};
  for (const char* key : {"pipeline", "tensor", "data", "schedule", "zero", "recompute"})
    open.push_back(std::string("parallel.") + key + "=auto");
  for (const char* memory : {"64MiB", "1100KiB"}) {
    Keys keys = open;
    keys.push_back(std::string("devices.memory=") + memory);
    for (const int ranks : {0, 4}) {
      const json report = run.report(keys, {"--overwrite"}, ranks);
      EXPECT_EQ(report["weights"], alone["weights"]) << memory << " on " << ranks << " ranks";
      EXPECT_EQ(report["devices"].size(), 4u);
      for (const json& device : report["devices"])
        EXPECT_EQ(device["peak_bytes"], device["planned_bytes"]);
    }
  }
  const Answer answer = run.train(open, {"--overwrite"}, 4);
  EXPECT_EQ(answer.exit, 0) << answer.err;
  const std::size_t first = answer.out.find("auto: pipeline ");
  ASSERT_NE(first, std::string::npos) << answer.out;
  EXPECT_EQ(answer.out.find("auto: pipeline ", first + 1), std::string::npos) << "said twice";
  ::unsetenv(cache.c_str());
}

// ── Resume ───────────────────────────────────────────────────────────────────────────────────────

TEST(MpiResume, UnderAnotherLayoutGivesTheSameWeights) {
  const Keys shards = {"numerics.data_shards=2", "train.checkpoint_every=10", "train.keep=3"};
  const TinyRun run(shards);
  const Layout saved = {2, {"parallel.data=2"}};
  const Layout resumed = {3, {"parallel.pipeline=3"}};
  const json whole = run.report();

  ASSERT_TRUE(run.report(saved.keys, {"--overwrite"}, saved.ranks).contains("weights"));
  const std::string half = "--resume=" + run.out() + "/checkpoints/step-00000010";
  for (int ranks : {0, 3}) {
    const json report = run.report(resumed.keys, {half}, ranks);
    EXPECT_EQ(report["weights"], whole["weights"]) << report;
    EXPECT_EQ(report["loss"].size(), 10u);
  }
  // And back: saved by threads, resumed by ranks.
  ASSERT_TRUE(run.report(resumed.keys, {"--overwrite"}).contains("weights"));
  const json back = run.report(saved.keys, {half}, saved.ranks);
  EXPECT_EQ(back["weights"], whole["weights"]) << back;
}

// ── Usage ────────────────────────────────────────────────────────────────────────────────────────

TEST(MpiUsage, WrongKeysExitTwoWithOneSentence) {
  const TinyRun run;
  const std::vector<std::pair<Keys, std::string>> cases = {
      {{"parallel.pipeline=3", "devices.count=3"},
       "cleave: rank 0: devices.count is 3, but mpirun or srun started 2 processes; make them "
       "equal\n"},
      {{"parallel.pipeline=2", "devices.transport=local"},
       "cleave: rank 0: devices.transport is \"local\", but mpirun or srun started 2 processes; "
       "leave the key out, or start cleave without them\n"},
      {{"parallel.pipeline=2", "data.path=/nowhere"},
       "cleave: rank 0: cannot read data.path /nowhere: No such file or directory; set it to "}};
  for (const auto& [keys, sentence] : cases) {
    const Answer answer = run.train(keys, {}, 2);
    EXPECT_EQ(answer.exit, 2);
    EXPECT_EQ(answer.out, "");
    EXPECT_NE(answer.err.find(sentence), std::string::npos) << answer.err;
    EXPECT_EQ(lines_of_cleave(answer.err), 1) << answer.err;
    EXPECT_FALSE(std::filesystem::exists(run.out()));
  }
}

TEST(MpiUsage, NeedsMpirun) {
  const Answer answer = TinyRun().train({"devices.transport=mpi"});
  EXPECT_EQ(answer.exit, 2);
  EXPECT_EQ(answer.err,
            "cleave: devices.transport is \"mpi\", but neither mpirun nor srun started this "
            "process; start it with mpirun -np 1, or set devices.transport to \"local\"\n");
}

TEST(MpiUsage, OnlyTheFirstRankWritesToStdout) {
  const Answer answer = TinyRun().train({"parallel.pipeline=2", "train.steps=2"}, {}, 2);
  EXPECT_EQ(answer.exit, 0) << answer.err;
  EXPECT_EQ(answer.out.find("59584 parameters"), 0u) << answer.out;
  EXPECT_EQ(answer.out.find("59584 parameters", 1), std::string::npos);
  EXPECT_EQ(answer.out.find("\nweights "), answer.out.rfind("\nweights ")) << answer.out;
  EXPECT_EQ(answer.out.find('\x1b'), std::string::npos) << "mpirun's pty is no terminal";
}

TEST(MpiUsage, PlansOnceForAllRanks) {
  const TinyRun run;
  const Answer answer = testing::run(testing::cleave_command(
      {"plan", run.path("run.toml"), "--set", "parallel.pipeline=2", "--json"}, 2));
  ASSERT_EQ(answer.exit, 0) << answer.err;
  EXPECT_EQ(json::parse(answer.out)["planned_bytes"].size(), 2u) << "one object, of two devices";
}

// ── Faults ───────────────────────────────────────────────────────────────────────────────────────

TEST(MpiFaults, AKilledRankEndsTheJobAndResumeGivesTheSameWeights) {
  const TinyRun run({"parallel.pipeline=3", "train.steps=900", "train.checkpoint_every=300"});
  const TinyRun undisturbed({"train.steps=900"});
  Process job(run.command({}, {}, 3));
  ASSERT_TRUE(job.prints("step 300: saved")) << job.err();
  const std::vector<pid_t> ranks = job.children();
  ASSERT_EQ(ranks.size(), 3u);
  // Past the end of saving, where ranks wait for each other without an instruction.
  std::this_thread::sleep_for(std::chrono::milliseconds(50));
  ::kill(ranks[1], SIGKILL);
  const Answer killed = job.wait(seconds(10));
  EXPECT_NE(killed.exit, 0);
  EXPECT_NE(killed.exit, -1) << "the job must end within 10 s";
  // Which of them speaks before mpirun kills it is up to mpirun; one does.
  EXPECT_NE(killed.err.find("was told to end, as mpirun does when another rank has died"),
            std::string::npos)
      << killed.err;
  EXPECT_NE(killed.err.find("device 1, tag"), std::string::npos) << killed.err;
  EXPECT_NE(killed.err.find(": at "), std::string::npos) << killed.err;
  for (const pid_t rank : ranks) EXPECT_TRUE(testing::ends(rank)) << "an orphan";

  const json resumed = run.report({}, {"--resume"}, 3);
  EXPECT_EQ(resumed["weights"], undisturbed.report()["weights"]) << resumed;
}

// Alone in its pipeline, a rank waits for others in collectives only.
TEST(MpiFaults, TheWatchdogNamesARankThatStopsAnswering) {
  for (const char* layout : {"parallel.pipeline=3", "parallel.data=3"}) {
    const TinyRun run({layout, "train.steps=100000", "train.batch=12"});
    Process job(run.command({}, {"--patience", "2"}, 3));
    ASSERT_TRUE(job.prints("step 1")) << job.err();
    const std::vector<pid_t> ranks = job.children();
    ASSERT_EQ(ranks.size(), 3u);
    ::kill(ranks[1], SIGSTOP);
    const Answer answer = job.wait(seconds(10));
    EXPECT_EQ(answer.exit, 4) << answer.err;
    for (const char* words : {": at ", " has waited 2.00 s for its ", "device 1, tag ",
                              "device 1 does not answer: it computes, hangs or is stopped\n"})
      EXPECT_NE(answer.err.find(words), std::string::npos) << words << " is not in " << answer.err;
    for (const pid_t rank : ranks) EXPECT_TRUE(testing::ends(rank)) << "an orphan";
  }
}

TEST(MpiFaults, Usr1StopsAfterTheStepAndResumeGoesOn) {
  const TinyRun run({"parallel.pipeline=2", "train.steps=600"});
  Process job(run.command({}, {}, 2));
  ASSERT_TRUE(job.prints("step 1")) << job.err();
  const std::vector<pid_t> ranks = job.children();
  job.signal(SIGUSR1);
  const Answer stopped = job.wait(seconds(10));
  EXPECT_EQ(stopped.exit, 0) << stopped.err;
  EXPECT_NE(stopped.out.find("stopped after step "), std::string::npos) << stopped.out;
  for (const pid_t rank : ranks) EXPECT_TRUE(testing::ends(rank)) << "an orphan";
  for (const auto& entry : std::filesystem::recursive_directory_iterator(run.out())) {
    EXPECT_EQ(entry.path().string().find(".tmp"), std::string::npos) << entry.path();
  }
  const json resumed = run.report({}, {"--resume"}, 2);
  EXPECT_EQ(resumed["weights"], TinyRun({"train.steps=600"}).report()["weights"]) << resumed;
}

TEST(MpiFaults, TermLeavesTheLastCheckpointIntact) {
  const TinyRun run({"parallel.pipeline=2", "train.steps=100000", "train.checkpoint_every=20"});
  Process job(run.command({}, {}, 2));
  ASSERT_TRUE(job.prints("step 20: saved")) << job.err();
  job.signal(SIGTERM);
  const Answer ended = job.wait(seconds(10));
  EXPECT_NE(ended.exit, 0);
  EXPECT_NE(ended.exit, -1);
  const Answer verified = testing::run_cleave("checkpoint verify " + run.out());
  EXPECT_EQ(verified.exit, 0) << verified.out << verified.err;
}

TEST(MpiFaults, AFullDiskEndsTheJobAndKeepsThePreviousCheckpoint) {
  const TinyRun run({"parallel.pipeline=2", "train.checkpoint_every=1"});
  const testing::Mounted disk(run.path("disk"), "size=1200k");
  if (!disk) GTEST_SKIP() << "mounting is not allowed here";
  const Answer full = run.train({"train.out=" + run.path("disk/out")}, {}, 2);
  EXPECT_EQ(full.exit, 1) << full.err;
  EXPECT_NE(full.err.find("cleave: rank 0: cannot write "), std::string::npos) << full.err;
  EXPECT_NE(full.err.find("No space left on device; free some space"), std::string::npos)
      << full.err;
  const Answer verified = testing::run_cleave("checkpoint verify " + run.path("disk/out"));
  EXPECT_EQ(verified.exit, 0) << verified.out << verified.err;
}

// ── Bigger than a device ─────────────────────────────────────────────────────────────────────────

TEST(MpiMemory, WhatFitsOnNoDeviceTrainsOnSeveral) {
  const TinyRun run({"model.layers=8", "model.hidden=128", "train.steps=2", "model.vocab=256",
                     "devices.memory=19MiB"});
  const Answer alone = run.train({}, {}, 1);
  EXPECT_EQ(alone.exit, 3) << alone.out << alone.err;
  EXPECT_NE(alone.err.find("device 0 needs "), std::string::npos) << alone.err;
  EXPECT_NE(alone.err.find("and has 19.0 MiB (19922944 bytes)"), std::string::npos) << alone.err;
  EXPECT_FALSE(std::filesystem::exists(run.out()));
  for (int ranks : {2, 3, 4}) {
    const json report =
        run.report({"parallel.pipeline=" + std::to_string(ranks)}, {"--overwrite"}, ranks);
    ASSERT_TRUE(report.contains("weights")) << report;
    for (const json& device : report["devices"]) {
      EXPECT_LE(device["peak_bytes"], device["budget_bytes"]);
      EXPECT_EQ(device["peak_bytes"], device["planned_bytes"]);
    }
  }
}

TEST(MpiMemory, WhatFitsOnNoDeviceGeneratesOnSeveral) {
  const TinyRun run({"train.steps=2", "parallel.pipeline=2"});
  ASSERT_EQ(run.train({}, {}, 2).exit, 0);
  const auto generate = [&](const Keys& flags, int ranks) {
    std::vector<std::string> arguments = {"generate", run.out(), "--json", "--prompt", "the "};
    arguments.insert(arguments.end(), flags.begin(), flags.end());
    return testing::run(testing::cleave_command(arguments, ranks));
  };
  const json alone = json::parse(generate({}, 0).out);
  const std::string less =
      std::to_string(alone["devices"][0]["planned_bytes"].get<std::int64_t>() - 1) + "B";
  const Answer refused = generate({"--memory", less}, 1);
  EXPECT_EQ(refused.exit, 3) << refused.err;
  EXPECT_EQ(lines_of_cleave(refused.err), 1) << refused.err;

  const Answer shared = generate({"--memory", less}, 3);
  ASSERT_EQ(shared.exit, 0) << shared.err;
  const json report = json::parse(shared.out);
  EXPECT_EQ(report["tokens"], alone["tokens"]);
  EXPECT_EQ(report["devices"].size(), 3u);
}

TEST(MpiMemory, WhatIsNotPlannedDoesNotGrowWithTheModel) {
  constexpr std::int64_t kMiB = 1 << 20;
  const TinyRun run({"model.heads=8", "train.steps=2", "parallel.pipeline=2"});
  const json small = run.report({"model.layers=8", "model.hidden=256"}, {"--overwrite"}, 2);
  const json large = run.report({"model.layers=8", "model.hidden=512"}, {"--overwrite"}, 2);
  ASSERT_TRUE(small.contains("weights")) << small;
  ASSERT_TRUE(large.contains("weights")) << large;
  for (std::size_t d = 0; d < 2; ++d) {
    const auto beyond = [&](const json& report) {
      const json& device = report["devices"][d];
      return device["resident_bytes"].get<std::int64_t>() -
             device["planned_bytes"].get<std::int64_t>();
    };
    EXPECT_GT(large["devices"][d]["planned_bytes"].get<std::int64_t>(),
              3 * small["devices"][d]["planned_bytes"].get<std::int64_t>());
    EXPECT_LT(std::abs(beyond(large) - beyond(small)), 16 * kMiB)
        << "device " << d << ": " << beyond(small) << " and " << beyond(large);
    RecordProperty("beyond_plan_" + std::to_string(d), std::to_string(beyond(large)));
  }
}

}  // namespace
}  // namespace cleave
