#include "app/run_cleave.h"
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

namespace cleave {
namespace {

using testing::run_cleave;

TEST(DoctorCommand, SaysWhatLimitsARunHere) {
  const auto answer = run_cleave("doctor");
  EXPECT_EQ(answer.exit, 0) << answer.err;
  EXPECT_NE(answer.out.find("What will limit you here:\n- Products run at "), std::string::npos);
}

TEST(DoctorCommand, PrintsOneJsonObject) {
  const auto json = nlohmann::json::parse(run_cleave("doctor --json").out);
  EXPECT_GT(json["f32_flops_one_thread"], 0);
  EXPECT_GT(json["memory_bytes_per_second"], 0);
  EXPECT_GE(json["allowed_threads"], 1);
  EXPECT_GE(json["advice"].size(), 3u);
}

TEST(Version, IsAVerbAndAFlag) {
  const auto flag = run_cleave("--version");
  EXPECT_EQ(flag.exit, 0) << flag.err;
  EXPECT_TRUE(flag.out.starts_with("cleave ")) << flag.out;
  EXPECT_EQ(flag.out, run_cleave("version").out);
}

}  // namespace
}  // namespace cleave
