#include "cleave/report/lanes.h"

#include <gtest/gtest.h>

namespace cleave::report {
namespace {

using plan::SpanKind;
using schedule::Op;

plan::Span span(int device, double begin, double end, Op op, SpanKind kind = SpanKind::Compute) {
  plan::Span made{.device = device, .kind = kind, .begin = begin, .end = end};
  made.instruction.op = op;
  return made;
}

TEST(Lanes, HaveTheLetterOfWhatADeviceDoesInTheMiddleOfEachColumn) {
  const plan::Trace trace{
      .devices = 2,
      .spans = {span(0, 0, 2, Op::Forward), span(0, 2, 4.4, Op::BackwardWeight),
                span(1, 0, 2, Op::Forward, SpanKind::Wait), span(1, 2, 3.6, Op::Forward),
                span(1, 6, 8, Op::Step, SpanKind::Update)}};
  EXPECT_EQ(lanes(trace, 8, 8), (std::vector<std::string>{"FFWW    ", "..FF  SS"}));
  EXPECT_EQ(lanes(trace, 16, 8), (std::vector<std::string>{"FW      ", ".F S    "}));
}

// Otherwise a lane would show what is on the wire in place of what the device computes.
TEST(Lanes, LeaveOutMessagesOnTheirWay) {
  const plan::Trace trace{
      .devices = 1,
      .spans = {span(0, 0, 4, Op::Forward), span(0, 1, 3, Op::Send, SpanKind::Transfer)}};
  EXPECT_EQ(lanes(trace, 4, 4), (std::vector<std::string>{"FFFF"}));
}

TEST(Lanes, AreBlankWhereNothingTakesTime) {
  EXPECT_EQ(lanes({.devices = 1}, 0, 3), (std::vector<std::string>{"   "}));
}

}  // namespace
}  // namespace cleave::report
