// What a page about a run keeps of it.

#include "watch/run_history.h"

#include <algorithm>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "support/temporary_directory.h"
#include <gtest/gtest.h>

#include "cleave/base/check.h"

namespace cleave::app {
namespace {

train::StepMetrics step_with(std::int64_t step, std::optional<double> validation = {}) {
  return {.step = step, .loss = 1.0 / static_cast<double>(step), .validation_loss = validation};
}

TEST(RunHistory, OfAMillionStepsIsBoundedAndReachesFromTheFirstToTheLast) {
  RunHistory run;
  std::size_t most = 0;
  for (std::int64_t step = 1; step <= 1'000'000; ++step) {
    note_step(run, step_with(step, step % 1000 == 0 ? std::optional(2.0) : std::nullopt));
    most = std::max(most, run.lines.capacity());
  }

  const auto& lines = run.lines;
  EXPECT_LE(lines.size(), kMostLines);
  EXPECT_LE(most, 2 * kMostLines);  // what a vector takes when it grows
  EXPECT_EQ(lines.front().step, 1);
  EXPECT_EQ(lines.back().step, 1'000'000);
  EXPECT_TRUE(std::ranges::is_sorted(lines, std::less(), &train::StepMetrics::step));
  EXPECT_EQ(
      std::ranges::count_if(lines, [](const auto& m) { return m.validation_loss.has_value(); }),
      1000);
  std::int64_t widest = 0;
  for (std::size_t i = 1; i < lines.size(); ++i)
    widest = std::max(widest, lines[i].step - lines[i - 1].step);
  EXPECT_LE(widest, 64);  // the whole run is there, about evenly
  const std::size_t newest = lines.size() - 4096;
  EXPECT_EQ(lines.back().step - lines[newest].step, 4095);  // for whoever asks next
}

TEST(RunHistory, IsBoundedWhereEveryStepIsValidated) {
  RunHistory run;
  for (std::int64_t step = 1; step <= 200'000; ++step) note_step(run, step_with(step, 1.0));

  EXPECT_LE(run.lines.size(), kMostLines);
}

TEST(RunHistory, HasAStepThatIsDoneAgainOnce) {
  RunHistory run;
  for (const std::int64_t step : {1, 2, 3, 4, 3, 4, 5}) note_step(run, step_with(step));

  std::vector<std::int64_t> steps;
  for (const train::StepMetrics& line : run.lines) steps.push_back(line.step);
  EXPECT_EQ(steps, (std::vector<std::int64_t>{1, 2, 3, 4, 5}));
}

TEST(RunHistory, HasTheEventsOfTheLog) {
  const testing::TemporaryDirectory directory;
  const std::string log =
      directory.write("log.jsonl", R"({"step":1,"loss":2.5})"
                                   "\n"
                                   R"({"event":"lost","after_step":1,"text":"device 2 is gone"})"
                                   "\n");
  RunHistory run;
  read_log(log, run);

  EXPECT_EQ(run.lines.size(), 1);
  EXPECT_EQ(run.events, std::vector<std::string>{"after step 1: device 2 is gone"});
}

/// What read_log() says of a log that has this line alone; nothing if it takes it.
std::string complaint_about(const std::string& line) {
  const testing::TemporaryDirectory directory;
  const std::string log = directory.write("log.jsonl", line + "\n");
  RunHistory run;
  try {
    read_log(log, run);
  } catch (const UserError& error) {
    const std::string text = error.what();
    return text.substr(text.find("log.jsonl"));
  }
  return "";
}

TEST(RunHistory, RefusesNumbersThatNoRunWrites) {
  EXPECT_EQ(complaint_about(R"({"step":-3,"loss":2.5})"),
            R"(log.jsonl has a line "{"step":-3,"loss":2.5}", and its step is -3; it was changed)");
  const std::pair<const char*, const char*> damaged[] = {
      {R"({"step":0})", "step is 0;"},
      {R"({"step":1.5})", "step is 1.5;"},
      {R"({"step":null})", "step is null;"},
      {R"({"step":9223372036854775808})", "step is 9223372036854775808;"},
      {R"({"step":1,"loss":"low"})", "loss is \"low\";"},
      {R"({"step":1,"seconds":-1})", "seconds is -1;"},
      {R"({"step":1,"validation_loss":[]})", "validation_loss is [];"},
      {R"({"step":1,"memory_bytes":-8})", "memory_bytes is -8;"},
      {R"({"step":1,"memory_bytes":1e30})", "memory_bytes is 1e+30;"},
      {R"({"event":"lost","after_step":-1,"text":""})", "after_step is -1;"},
      {R"({"event":"lost","after_step":1,"text":7})", "text is 7;"},
  };
  for (const auto& [line, complaint] : damaged)
    EXPECT_NE(complaint_about(line).find(std::string("its ") + complaint), std::string::npos)
        << line << ": " << complaint_about(line);
}

TEST(RunHistory, TakesEveryLineThatARunWrites) {
  const double nothing = std::numeric_limits<double>::quiet_NaN();
  std::string line = train::line_of({.step = 1, .loss = nothing, .validation_loss = nothing});
  line.pop_back();  // its end

  EXPECT_EQ(complaint_about(line), "");
}

}  // namespace
}  // namespace cleave::app
