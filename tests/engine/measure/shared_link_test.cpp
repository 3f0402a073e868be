#include "cleave/engine/measure/shared_link.h"

#include <gtest/gtest.h>

namespace cleave::engine {
namespace {

constexpr double kPerByte = 1e-6, kLatency = 0.04;

// Of 18,000 bytes that pass at once, and the rest at the rate.
TEST(LinkAtWork, KnowsWhatPassesAtOnceAfterAPause) {
  const auto seconds = [](double bytes) { return kLatency + (bytes - 18000) * kPerByte; };

  const plan::LinkCosts link = link_at_work({.few = kLatency,
                                             .one = seconds(32768),
                                             .several = seconds(4 * 32768),
                                             .bytes = 32768,
                                             .messages = 4});

  EXPECT_DOUBLE_EQ(link.latency, kLatency);
  EXPECT_NEAR(link.per_byte, kPerByte, 1e-12);
  EXPECT_NEAR(link.burst, 18000, 1e-3);
}

// TCP that begins slowly, or a busy machine: nothing passes at once, and no number is negative.
TEST(LinkAtWork, HasNoBurstWhereTheFirstMessageTakesLonger) {
  const TimedMessages slow{
      .few = kLatency, .one = 0.2, .several = 0.21, .bytes = 32768, .messages = 2};
  EXPECT_DOUBLE_EQ(link_at_work(slow).burst, 0);
  EXPECT_NEAR(link_at_work(slow).per_byte, 0.01 / 32768, 1e-12);

  TimedMessages disturbed = slow;
  disturbed.several = 0.19;
  EXPECT_DOUBLE_EQ(link_at_work(disturbed).per_byte, 0);
  EXPECT_DOUBLE_EQ(link_at_work(disturbed).burst, 0);
}

TEST(LinkInCompany, SharesItsWayIfAllTogetherTakeLonger) {
  const plan::LinkCosts alone{.latency = kLatency, .per_byte = kPerByte, .burst = 18000};
  const auto seconds = [](double bytes) { return kLatency + (bytes - 18000) * kPerByte; };

  const plan::LinkCosts one_line = link_in_company(alone, 3, 50000, seconds(150000));
  EXPECT_NEAR(one_line.shared_per_byte, kPerByte, 1e-12);
  EXPECT_DOUBLE_EQ(one_line.per_byte, kPerByte);
  EXPECT_DOUBLE_EQ(one_line.burst, 18000);

  EXPECT_DOUBLE_EQ(link_in_company(alone, 3, 50000, seconds(50000)).shared_per_byte, 0);
}

}  // namespace
}  // namespace cleave::engine
