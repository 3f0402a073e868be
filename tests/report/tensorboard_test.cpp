#include "cleave/report/tensorboard.h"

#include <cstring>

#include "support/temporary_directory.h"
#include <gtest/gtest.h>

namespace cleave::report {
namespace {

TEST(Crc32c, HasThePublishedCheckValues) {
  EXPECT_EQ(crc32c("123456789"), 0xe3069283u);
  EXPECT_EQ(crc32c(std::string(32, '\0')), 0x8a9136aau);
  EXPECT_EQ(crc32c(""), 0u);
}

TEST(TensorBoardFile, FramesEveryEventWithItsLength) {
  const testing::TemporaryDirectory directory;
  TensorBoardFile file(directory.path("tb"), 1000.5, 0);
  file.write(7, 1001.0, {{"loss", 2.5}, {"lr", 0.25}});

  const std::string bytes = read_text(file.path());

  std::vector<std::string> events;
  for (std::size_t at = 0; at < bytes.size();) {
    std::uint64_t length = 0;
    ASSERT_LE(at + 12, bytes.size());
    std::memcpy(&length, bytes.data() + at, sizeof length);
    ASSERT_LE(at + 12 + length + 4, bytes.size());
    events.push_back(bytes.substr(at + 12, length));
    at += 12 + length + 4;
  }
  ASSERT_EQ(events.size(), 2u);
  EXPECT_NE(events[0].find("brain.Event:2"), std::string::npos);
  // step 7; summary of 2 values; the first: tag "loss", then 2.5 as f32
  EXPECT_NE(events[1].find(std::string("\x10\x07", 2)), std::string::npos);
  EXPECT_NE(events[1].find(std::string("\x0a\x04loss\x15\x00\x00\x20\x40", 11)), std::string::npos);
}

TEST(TensorBoardFile, SaysWhereAResumedRunGoesOn) {
  const testing::TemporaryDirectory directory;
  const TensorBoardFile file(directory.path("tb"), 1000.5, 9);
  const std::string bytes = read_text(file.path());
  EXPECT_NE(bytes.find(std::string("\x10\x09\x3a\x02\x08\x01", 6)), std::string::npos);
}

}  // namespace
}  // namespace cleave::report
