#include "cleave/report/progress.h"

#include <gtest/gtest.h>

namespace cleave::report {
namespace {

ProgressStep at(std::int64_t step) {
  return {.step = step,
          .loss = 2.34567,
          .gradient_norm = 0.8765,
          .lr = 3e-4,
          .tokens_per_second = 12345,
          .limit_share = 0.823,
          .memory_bytes = 1 << 30};
}

/// What stands on the screen: columns, with colours and the way to the margin taken out.
std::size_t columns_of(const std::string& text) {
  std::size_t columns = 0;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '\x1b') {
      while (text[i] != 'm' && text[i] != 'K') ++i;
    } else if (text[i] != '\r' && (static_cast<unsigned char>(text[i]) & 0xc0) != 0x80) {
      ++columns;
    }
  }
  return columns;
}

TEST(Progress, PrintsPlainLinesWithEveryField) {
  std::string out;
  Progress progress(0, 100, {}, Progress::Style::Lines, [&](auto text) { out += text; });
  progress.show(at(1), 0);

  EXPECT_EQ(out,
            "step 1/100  loss 2.3457  12.3k tokens/s  82% of matmul limit  grad norm 0.876  "
            "lr 3.00e-04  1.00 GiB\n");
}

TEST(Progress, LimitsPlainLinesButShowsTheFirstAndTheLast) {
  std::string out;
  Progress progress(0, 100, {}, Progress::Style::Lines,
                    [&](auto text) { (out += text.substr(0, text.find('/'))) += ';'; });
  for (int step = 1; step <= 100; ++step) progress.show(at(step), step * 0.1);
  progress.finish();

  EXPECT_EQ(out, "step 1;step 51;step 100;");
}

TEST(Progress, DrawsOneLineOverItself) {
  std::string out;
  Progress progress(0, 4, {.columns = 140, .ink = Ink::Plain}, Progress::Style::Redraw,
                    [&](auto text) { out = text; });
  progress.show(at(1), 10);
  progress.show(at(2), 12);

  EXPECT_EQ(out,
            "\r\x1b[Kstep 2/4 [==========          ]  loss 2.3457  12.3k tokens/s  82% of matmul "
            "limit  grad norm 0.876  lr 3.00e-04  1.00 GiB  4.00 s left");
  progress.note("saved");
  EXPECT_TRUE(out.starts_with("\r\x1b[Ksaved\nstep 2/4 [")) << out;
  progress.finish();
  EXPECT_EQ(out, "\n");
}

TEST(Progress, RedrawsAtMostTenTimesASecond) {
  int drawn = 0;
  Progress progress(0, 1000, {}, Progress::Style::Redraw, [&](auto) { ++drawn; });
  for (int step = 1; step <= 100; ++step) progress.show(at(step), 5 + step * 0.01);
  EXPECT_LE(drawn, 11);
  EXPECT_GE(drawn, 9);
}

TEST(Progress, FitsEveryWidth) {
  for (const Ink ink : {Ink::Plain, Ink::Palette256}) {
    for (int columns = 10; columns <= 160; ++columns) {
      std::string out;
      Progress progress(7, 1000, {.columns = columns, .ink = ink}, Progress::Style::Redraw,
                        [&](auto text) { out = text; });
      progress.show(at(8), 0);
      progress.show(at(500), 1000);
      EXPECT_LT(columns_of(out), static_cast<std::size_t>(columns)) << out;
    }
  }
}

TEST(Progress, UsesNoColourWithoutInk) {
  std::string out;
  Progress progress(0, 10, {.columns = 120, .ink = Ink::Plain}, Progress::Style::Redraw,
                    [&](auto text) { out = text; });
  progress.show(at(1), 0);
  EXPECT_EQ(out.find("\x1b[", 4), std::string::npos) << out;
}

}  // namespace
}  // namespace cleave::report
