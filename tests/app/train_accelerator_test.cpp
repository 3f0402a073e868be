// `devices.kind` as users meet it. What trains is skipped where there is no accelerator.

#include <cstdlib>

#include "app/tiny_run.h"
#include <gtest/gtest.h>

namespace cleave {
namespace {

using testing::Answer;
using testing::TinyRun;

/// Sets an environment variable for as long as it lives.
class Environment {
 public:
  Environment(const char* name, const char* value) : name_(name) { ::setenv(name, value, 1); }
  ~Environment() { ::unsetenv(name_); }
  Environment(const Environment&) = delete;
  Environment& operator=(const Environment&) = delete;

 private:
  const char* name_;
};

/// What `cleave doctor` says, which takes it seconds.
const nlohmann::json& machine() {
  static const auto said =
      nlohmann::json::parse(testing::run(testing::cleave_command({"doctor", "--json"})).out);
  return said;
}

TEST(TrainAccelerator, GivesTheBitsOfProcessorsAndResumesTheirRuns) {
  const auto& here = machine();
  if (here["accelerators"].empty()) GTEST_SKIP() << here["accelerator_problem"].get<std::string>();
  EXPECT_TRUE(here["accelerators"][0]["exact"].get<bool>()) << here["accelerators"];
  const TinyRun processor({"train.steps=4", "model.layers=2"});
  const TinyRun accelerator({"train.steps=4", "model.layers=2"});
  // In two parts too, because the learning rate follows train.steps.
  processor.report({"train.steps=2"});
  const auto expected = processor.report({"parallel.pipeline=2"}, {"--resume"});

  accelerator.report({"train.steps=2", "devices.kind=opencl", "train.checkpoint_every=1"});
  const auto resumed = accelerator.report(
      {"parallel.pipeline=2", "devices.kind=[\"cpu\", \"opencl\"]"}, {"--resume"});

  EXPECT_EQ(resumed["weights"], expected["weights"]);
  EXPECT_EQ(resumed["validation_loss"], expected["validation_loss"]);
  for (const auto& device : resumed["devices"])
    EXPECT_EQ(device["peak_bytes"], device["planned_bytes"]);
}

TEST(TrainAccelerator, ValidatesInPipelinesWithTheBitsOfProcessors) {
  if (machine()["accelerators"].empty()) GTEST_SKIP();
  const TinyRun run({"train.steps=2", "data.validation=0.2"});
  const auto expected = run.report();
  for (const char* pipeline : {"parallel.pipeline=2", "parallel.pipeline=4"}) {
    const auto report = run.report({"devices.kind=opencl", pipeline}, {"--overwrite"});
    EXPECT_EQ(report["validation_loss"], expected["validation_loss"]) << pipeline;
    EXPECT_EQ(report["weights"], expected["weights"]) << pipeline;
    for (const auto& device : report["devices"])
      EXPECT_EQ(device["host_bytes"], device["planned_host_bytes"]) << pipeline;
  }
}

TEST(TrainAccelerator, GivesTheBitsOfProcessorsToProcessesOfDifferentKinds) {
  if (machine()["accelerators"].empty() || machine()["mpi"].is_null()) GTEST_SKIP();
  const TinyRun run({"train.steps=2", "model.layers=2"});
  const auto expected = run.report();
  const auto mixed = run.report({"parallel.pipeline=2", "devices.kind=[\"opencl\", \"cpu\"]"},
                                {"--overwrite"}, /*ranks=*/2);
  EXPECT_EQ(mixed["weights"], expected["weights"]);
  for (const auto& device : mixed["devices"])
    EXPECT_EQ(device["peak_bytes"], device["planned_bytes"]);
}

TEST(TrainAccelerator, EvaluatesWithTheBitsOfProcessors) {
  if (machine()["accelerators"].empty()) GTEST_SKIP();
  const TinyRun run({"train.steps=1", "model.layers=2"});
  run.report();
  const auto loss = [&](const std::string& kind) {
    const Answer answer =
        testing::run(testing::cleave_command({"evaluate", run.out(), "--data", run.path("data.txt"),
                                              "--json", "--set", "devices.kind=" + kind}));
    return answer.exit == 0 ? nlohmann::json::parse(answer.out)["loss"]
                            : nlohmann::json(answer.err);
  };
  EXPECT_EQ(loss("opencl"), loss("cpu"));
}

TEST(TrainAccelerator, RefusesWhatIsNotThere) {
  const TinyRun run({"train.steps=1"});
  {
    const Environment none("OCL_ICD_VENDORS", "/nowhere");
    const Answer answer = run.train({"devices.kind=opencl"});
    EXPECT_EQ(answer.exit, 2) << answer.err;
    EXPECT_NE(answer.err.find("cleave: devices.kind asks for \"opencl\", but "), std::string::npos)
        << answer.err;
  }
  const Answer answer = run.train({"devices.kind=opencl:99"});
  EXPECT_EQ(answer.exit, 2) << answer.err;
  EXPECT_NE(answer.err.find("cleave: devices.kind asks for \"opencl:99\", but "), std::string::npos)
      << answer.err;
}

TEST(TrainAccelerator, IsExactBesideProcessorsAndComputes) {
  const TinyRun run({"train.steps=1", "devices.kind=opencl"});
  const Answer inexact = run.train(
      {"numerics.exact=false", "devices.kind=[\"cpu\", \"opencl\"]", "parallel.pipeline=2"});
  EXPECT_EQ(inexact.exit, 2);
  EXPECT_EQ(
      inexact.err,
      "cleave: devices.kind has processors and accelerators, whose bits are the same in exact "
      "arithmetic only, but numerics.exact is false; leave it out\n");
  const Answer emulated = run.train({"devices.emulate=f=1ms,i=1ms,w=1ms"});
  EXPECT_EQ(emulated.exit, 2);
  EXPECT_EQ(emulated.err,
            "cleave: devices.kind has accelerators, but devices.emulate says that no device "
            "computes; leave one of them out\n");
  const Answer averaged = run.train({"edge.sync_every=1", "edge.clients=2"});
  EXPECT_EQ(averaged.exit, 2);
  EXPECT_NE(averaged.err.find("devices.kind has accelerators, but edge.sync_every is 1, and what "
                              "clients train is averaged on processors; leave one of them out"),
            std::string::npos)
      << averaged.err;
}

}  // namespace
}  // namespace cleave
