#include <cstdlib>

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

TEST(DoctorCommand, ShowsTheLimitOfInstructions) {
  ::setenv("CLEAVE_ISA", "sse4", 1);
  const auto answer = run_cleave("doctor");
  ::setenv("CLEAVE_ISA", "neon", 1);
  const auto wrong = run_cleave("doctor");
  ::unsetenv("CLEAVE_ISA");

  EXPECT_NE(answer.out.find("held down by CLEAVE_ISA=sse4"), std::string::npos) << answer.out;
  EXPECT_EQ(wrong.exit, 2);
  EXPECT_NE(wrong.err.find("CLEAVE_ISA is \"neon\", which is no instruction set"),
            std::string::npos)
      << wrong.err;
}

TEST(Version, IsAVerbAndAFlag) {
  const auto flag = run_cleave("--version");
  EXPECT_EQ(flag.exit, 0) << flag.err;
  EXPECT_TRUE(flag.out.starts_with("cleave ")) << flag.out;
  EXPECT_TRUE(run_cleave("version").out.starts_with(flag.out));
  const auto json = nlohmann::json::parse(run_cleave("version --json").out);
  EXPECT_EQ("cleave " + json["version"].get<std::string>() + "\n", flag.out);
}

TEST(Verbs, AreNamedWhenThereIsNone) {
  const auto answer = run_cleave("trian run.toml");
  EXPECT_EQ(answer.exit, 2);
  EXPECT_NE(answer.err.find("no verb 'trian'; did you mean train?"), std::string::npos)
      << answer.err;
  EXPECT_NE(run_cleave("bench stap").err.find("no verb 'stap'; did you mean step?"),
            std::string::npos);
  EXPECT_NE(run_cleave("bench step --foo").err.find("see cleave bench step --help"),
            std::string::npos);
}

TEST(Output, ThatIsLostIsAFailure) {
  for (const char* verb :
       {"version", "--help", "doctor --json", "schedule 1f1b --stages 2 --microbatches 2 --json"}) {
    const auto answer = run_cleave(std::string(verb) + " >/dev/full");
    EXPECT_EQ(answer.exit, 1) << verb;
    EXPECT_EQ(answer.err, "cleave: cannot write standard output: No space left on device\n")
        << verb;
  }
}

}  // namespace
}  // namespace cleave
