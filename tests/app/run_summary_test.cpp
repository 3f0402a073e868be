// What a run says of itself at its end.

#include "train/run_summary.h"

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

namespace cleave::app {
namespace {

train::RunReport report_of_one_device() {
  train::RunReport report;
  report.steps = 20;
  report.weights = "1234";
  report.step_seconds = 0.1;
  report.predicted_step_seconds = 0.095;
  report.predicted_range = train::SecondsRange{.low = 0.08, .high = 0.12};
  train::DeviceReport device;
  device.peak_bytes = device.planned_bytes = 3'333'333;
  device.parameters = 1'234'567;
  report.devices.push_back(device);
  return report;
}

bool says(const train::RunReport& report, const std::string& text) {
  return describe_report(report).find(text) != std::string::npos;
}

TEST(RunSummary, HasTheRangeOfThePrediction) {
  const train::RunReport report = report_of_one_device();

  EXPECT_TRUE(says(report, "step 100 ms (median), predicted 95.0 ms (80.0 ms to 120 ms), bubble"))
      << describe_report(report);
  EXPECT_FALSE(says(report, "than predicted"));
  EXPECT_EQ(to_json(report)["predicted_range"], (nlohmann::json{0.08, 0.12}));
}

TEST(RunSummary, SaysWhatOthersTookWhereTheRangeIsLeft) {
  train::RunReport report = report_of_one_device();
  report.step_seconds = 0.2;
  report.others = 0.4;

  EXPECT_TRUE(says(report,
                   "\nthat is slower than predicted; other programs took 40.0 % of the "
                   "processors meanwhile\n"))
      << describe_report(report);
  report.step_seconds = 0.05;
  report.others = {};
  EXPECT_TRUE(says(report,
                   "\nthat is faster than predicted; other programs may have taken part of "
                   "the processors\n"));
}

TEST(RunSummary, RoundsForPeopleAndIsExactInJson) {
  const train::RunReport report = report_of_one_device();

  EXPECT_TRUE(says(report, "  1.23M ")) << describe_report(report);
  EXPECT_TRUE(says(report, "  3.18 MiB  3.18 MiB\nevery peak is as planned, to the byte\n"));
  EXPECT_EQ(to_json(report)["devices"][0]["peak_bytes"], 3'333'333);
  EXPECT_EQ(to_json(report)["devices"][0]["parameters"], 1'234'567);
}

TEST(RunSummary, NamesAPeakThatIsNotAsPlanned) {
  train::RunReport report = report_of_one_device();
  report.devices[0].peak_bytes += 64;

  EXPECT_TRUE(says(report, "device 0 took 3333397 B where 3333333 B were planned\n"));
}

}  // namespace
}  // namespace cleave::app
