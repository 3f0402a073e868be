// Trainings in an order that somebody else wrote.

#include "app/tiny_run.h"
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

namespace cleave {
namespace {

using nlohmann::json;
using testing::Answer;
using testing::TinyRun;

/// A file with the order of a named schedule, as torch would write it.
std::string order_of(const TinyRun& run, const std::string& schedule) {
  const Answer csv = testing::run(testing::cleave_command(
      {"schedule", schedule, "--stages", "2", "--microbatches", "4", "--format", "csv"}));
  return run.directory().write("my.csv", csv.out);
}

TEST(TrainSchedule, FromAFileIsTheOneInTheFile) {
  const TinyRun run({"parallel.pipeline=2", "train.steps=3"});
  const json plain = run.report();
  for (const std::string schedule : {"gpipe", "zbv"}) {
    const json named = run.report({"parallel.schedule=" + schedule}, {"--overwrite"});
    const json own = run.report({"parallel.schedule=" + order_of(run, schedule)}, {"--overwrite"});

    EXPECT_EQ(own["weights"], plain["weights"]);
    EXPECT_EQ(own["loss"], plain["loss"]);
    for (const int device : {0, 1}) {
      const json& bytes = own["devices"][device]["planned_bytes"];
      EXPECT_EQ(bytes, named["devices"][device]["planned_bytes"]) << schedule;
      EXPECT_EQ(bytes, own["devices"][device]["peak_bytes"]);
    }
  }
}

TEST(TrainSchedule, FromAFileIsThatOfEveryReplica) {
  const TinyRun run({"parallel.pipeline=2", "parallel.data=2", "train.batch=8", "train.steps=2"});
  const json plain = run.report();
  const json own = run.report({"parallel.schedule=" + order_of(run, "zbv")}, {"--overwrite"});
  EXPECT_EQ(own["weights"], plain["weights"]);
}

TEST(TrainSchedule, FromAFileSaysWhatItChanged) {
  const TinyRun run({"parallel.pipeline=1", "train.batch=2", "train.steps=1"});
  const std::string file = run.directory().write("my.csv", "0F0,0F1,0B1,0B0\n");
  const Answer answer = run.train({"parallel.schedule=" + file});

  EXPECT_EQ(answer.exit, 0) << answer.err;
  EXPECT_NE(answer.err.find("cleave: warning: " + file +
                            " has backwards of a stage in another order than that of microbatches; "
                            "they change places, so that sums keep one order\n"),
            std::string::npos)
      << answer.err;
}

TEST(TrainSchedule, FromAFileIsForOneLayout) {
  const TinyRun run({"parallel.pipeline=2", "train.steps=1"});
  const std::string file = order_of(run, "1f1b");
  const auto said = [&](const TinyRun::Keys& keys) {
    TinyRun::Keys all = {"parallel.schedule=" + file};
    all.insert(all.end(), keys.begin(), keys.end());
    const Answer answer = run.train(all);
    EXPECT_EQ(answer.exit, 2);
    return answer.err;
  };
  EXPECT_EQ(said({"train.batch=6"}), "cleave: " + file +
                                         " is for 4 microbatches, but each replica has 6 of them; "
                                         "change train.batch or train.microbatch\n");
  EXPECT_EQ(said({"parallel.zero=auto"}),
            "cleave: parallel.schedule is the file " + file +
                ", which has the order of one layout, but parallel.zero is left to the planner; "
                "give it a value\n");
  EXPECT_EQ(said({"parallel.schedule=none.csv"}),
            "cleave: cannot read none.csv: No such file or directory\n");
}

}  // namespace
}  // namespace cleave
