#include "cleave/report/progress.h"

#include <gtest/gtest.h>

namespace cleave::report {
namespace {

ProgressStep at(std::int64_t step) {
  return {.step = step,
          .loss = 2.34567,
          .gradient_norm = 0.8765,
          .lr = 3e-4,
          .tokens = 1234.5,
          .seconds = 0.1,
          .limit_seconds = 0.0823,
          .memory_bytes = 1 << 30};
}

/// What stands on the screen: columns, with colours and the way to the margin taken out.
std::size_t columns_of(const std::string& text) {
  std::size_t columns = 0;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '\x1b') {
      while (std::string_view("mKAJ").find(text[i]) == std::string_view::npos) ++i;
    } else if (text[i] != '\r' && (static_cast<unsigned char>(text[i]) & 0xc0) != 0x80) {
      ++columns;
    }
  }
  return columns;
}

Progress::Look looks(Terminal terminal) {
  return [terminal] { return terminal; };
}

TEST(Progress, PrintsPlainLinesWithTimePaceAndWhatIsLeft) {
  std::string out;
  Progress progress(100, looks({}), Progress::Style::Lines, [&](auto text) { out += text; });
  progress.show(at(1), 0, "14:03:07");
  progress.show(at(2), 10, "14:03:17");

  EXPECT_EQ(out,
            "14:03:07  step 1/100  loss 2.3457  12.3k tokens/s  82% of matmul limit  "
            "grad norm 0.876  lr 3.00e-04  1.00 GiB\n"
            "14:03:17  step 2/100  loss 2.3457  12.3k tokens/s  0.1 steps/s  82% of matmul limit  "
            "grad norm 0.876  lr 3.00e-04  1.00 GiB  16m 20s left\n");
}

TEST(Progress, LimitsPlainLinesButShowsTheFirstAndTheLast) {
  std::string out;
  Progress progress(100, looks({}), Progress::Style::Lines,
                    [&](auto text) { (out += text.substr(0, text.find('/'))) += ';'; });
  for (int step = 1; step <= 100; ++step) progress.show(at(step), step * 0.1);
  progress.finish();

  EXPECT_EQ(out, "step 1;step 51;step 100;");
}

TEST(Progress, ShowsTheStepAfterWhichARunIsStopped) {
  std::string out;
  Progress progress(100, looks({}), Progress::Style::Lines, [&](auto text) { out = text; });
  ProgressStep stopped = at(3);
  stopped.last = true;
  progress.show(at(1), 0);
  progress.show(at(2), 0.1);
  progress.show(stopped, 0.2);

  EXPECT_TRUE(out.starts_with("step 3/100 ")) << out;
  EXPECT_EQ(out.find("left"), std::string::npos) << out;
}

TEST(Progress, NeverClaimsMoreThanTheLimit) {
  std::string out;
  Progress progress(100, looks({}), Progress::Style::Lines, [&](auto text) { out = text; });
  ProgressStep fast = at(1);
  fast.limit_seconds = 0.224;
  progress.show(fast, 0);

  EXPECT_EQ(out.find("limit"), std::string::npos) << out;
}

TEST(SmoothedSeconds, IsTheMeanAtFirstAndFollowsALastingChange) {
  SmoothedSeconds pace;
  for (const double seconds : {0.1, 0.3}) pace.note(seconds);
  EXPECT_NEAR(pace.value(), 0.2, 1e-12);

  for (int i = 0; i < 100; ++i) pace.note(0.2);
  pace.note(0.4);
  EXPECT_LT(pace.value(), 0.21);  // one slow step hardly shows
  for (int i = 0; i < 200; ++i) pace.note(0.4);
  EXPECT_NEAR(pace.value(), 0.4, 1e-3);
}

TEST(Progress, DrawsOneLineOverItself) {
  std::string out;
  Progress progress(4, looks({.columns = 150, .ink = Ink::Plain}), Progress::Style::Redraw,
                    [&](auto text) { out = text; });
  progress.show(at(1), 10);
  progress.show(at(2), 12);

  EXPECT_EQ(out,
            "\r\x1b[Kstep 2/4 [==========          ]  loss 2.3457  12.3k tokens/s  0.5 steps/s  "
            "82% of matmul limit  grad norm 0.876  lr 3.00e-04  1.00 GiB  4.00 s left");
  progress.note("saved");
  EXPECT_TRUE(out.starts_with("\r\x1b[Ksaved\nstep 2/4 [")) << out;
  progress.finish();
  EXPECT_EQ(out, "\n");
}

TEST(Progress, FollowsTheWidthOfTheTerminal) {
  std::string out;
  Terminal terminal{.columns = 120, .ink = Ink::Plain};
  Progress progress(
      1000, [&] { return terminal; }, Progress::Style::Redraw, [&](auto text) { out = text; });
  progress.show(at(1), 0);
  progress.show(at(2), 1);
  ASSERT_GT(columns_of(out), 100u) << out;
  terminal.columns = 50;
  progress.show(at(3), 2);

  EXPECT_TRUE(out.starts_with("\r\x1b[2A\x1b[Jstep 3/1000")) << out;  // it took three rows of 50
  EXPECT_LT(columns_of(out), 50u) << out;
}

TEST(Progress, RedrawsAtMostTenTimesASecond) {
  int drawn = 0;
  Progress progress(1000, looks({}), Progress::Style::Redraw, [&](auto) { ++drawn; });
  for (int step = 1; step <= 100; ++step) progress.show(at(step), 5 + step * 0.01);
  EXPECT_LE(drawn, 11);
  EXPECT_GE(drawn, 9);
}

TEST(Progress, FitsEveryWidth) {
  for (const Ink ink : {Ink::Plain, Ink::Palette256}) {
    for (int columns = 10; columns <= 160; ++columns) {
      std::string out;
      Progress progress(1000, looks({.columns = columns, .ink = ink}), Progress::Style::Redraw,
                        [&](auto text) { out = text; });
      progress.show(at(8), 0);
      progress.show(at(500), 1000);
      EXPECT_LT(columns_of(out), static_cast<std::size_t>(columns)) << out;
      const bool has_total = out.find('/') != out.npos;
      EXPECT_EQ(out.find("step 500/1000") != out.npos, has_total) << "half of the number: " << out;
    }
  }
}

TEST(Progress, TellsDoneFromUndoneWithoutColour) {
  for (const Ink ink : {Ink::Plain, Ink::Palette256}) {
    std::string out;
    Progress progress(10, looks({.columns = 120, .ink = ink}), Progress::Style::Redraw,
                      [&](auto text) { out = text; });
    progress.show(at(5), 0);
    const bool plain = ink == Ink::Plain;
    EXPECT_EQ(out.find("\x1b[", 4) == std::string::npos, plain) << out;
    EXPECT_NE(out.find(plain ? "===          ]" : "━\x1b[90m╌"), std::string::npos) << out;
  }
}

}  // namespace
}  // namespace cleave::report
