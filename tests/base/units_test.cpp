#include "cleave/base/units.h"

#include <gtest/gtest.h>

#include "cleave/base/check.h"

namespace cleave {
namespace {

TEST(Units, ReadsBytesInEveryUnit) {
  EXPECT_EQ(parse_bytes("96MiB"), 96ll << 20);
  EXPECT_EQ(parse_bytes("1.5 GiB"), 3ll << 29);
  EXPECT_EQ(parse_bytes("2GB"), 2'000'000'000);
  EXPECT_EQ(parse_bytes("4096"), 4096);
}

TEST(Units, ReadsWholeBytesExactlyWhereADoubleDoesNotHoldThem) {
  constexpr std::int64_t kOdd = (1ll << 53) + 1;
  EXPECT_EQ(parse_bytes("9007199254740993"), kOdd);
  EXPECT_EQ(parse_bytes("9007199254740993B"), kOdd);
  EXPECT_EQ(parse_bytes("4194304TiB"), 1ll << 62);
  EXPECT_THROW(parse_bytes("4194305TiB"), UserError);
}

TEST(Units, RefusesWhatIsNotASize) {
  for (const char* bad : {"", "MiB", "12 parsecs", "-1MiB", "nan", "1e300", "5MiBx"}) {
    EXPECT_THROW(parse_bytes(bad), UserError) << bad;
  }
}

TEST(Units, PrintsThreeDigits) {
  EXPECT_EQ(format_bytes(0), "0 B");
  EXPECT_EQ(format_bytes(100663296), "96.0 MiB");
  EXPECT_EQ(format_bytes(1023), "1.00 KiB");
  EXPECT_EQ(format_bytes(1536ll << 20), "1.50 GiB");
  EXPECT_EQ(format_seconds(0.005), "5.00 ms");
  EXPECT_EQ(format_seconds(125), "2m 05s");
  EXPECT_EQ(format_seconds(0), "0.00 s");
  EXPECT_EQ(format_share(0.1234), "12.3 %");
  EXPECT_EQ(counted(1, "device"), "1 device");
  EXPECT_EQ(counted(0, "step"), "0 steps");
}

TEST(Units, ReadsSeconds) {
  EXPECT_DOUBLE_EQ(parse_seconds("5ms"), 0.005);
  EXPECT_DOUBLE_EQ(parse_seconds("2"), 2);
  EXPECT_THROW(parse_seconds("-1s"), UserError);
  EXPECT_DOUBLE_EQ(parse_seconds("1e9s"), 1e9);
  EXPECT_THROW(parse_seconds("1.1e9s"), UserError);
}

}  // namespace
}  // namespace cleave
