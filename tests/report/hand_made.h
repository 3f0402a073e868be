#pragma once

#include <string>

#include "cleave/report/timeline.h"

namespace cleave::report::testing {

inline plan::Span compute(int device, schedule::Op op, int microbatch, double begin, double end,
                          int stage = -1) {
  schedule::Instruction instruction{.op = op};
  instruction.stage = stage < 0 ? device : stage;
  instruction.microbatch = microbatch;
  return {.device = device,
          .kind = plan::SpanKind::Compute,
          .begin = begin,
          .end = end,
          .instruction = instruction};
}

/// Two devices, one microbatch, F I W of length 1, a message of length 1 each way.
///
///     0  F0 .. .. .. .. I0 W0
///     1  .. .. F0 I0 W0 .. ..
inline Timeline two_devices(std::string name) {
  using enum schedule::Op;
  Timeline timeline;
  timeline.trace.name = std::move(name);
  timeline.trace.unit = "";
  timeline.trace.devices = 2;
  plan::Span message = compute(0, Send, 0, 1, 2);
  message.kind = plan::SpanKind::Transfer;
  message.peer = 1;
  message.instruction.edge = 0;
  plan::Span wait = compute(1, Wait, 0, 0, 2);
  wait.kind = plan::SpanKind::Wait;
  wait.instruction.completes = Receive;
  wait.instruction.edge = 0;
  timeline.trace.spans = {compute(0, Forward, 0, 0, 1),
                          message,
                          wait,
                          compute(1, Forward, 0, 2, 3),
                          compute(1, BackwardInput, 0, 3, 4),
                          compute(1, BackwardWeight, 0, 4, 5),
                          compute(0, BackwardInput, 0, 5, 6),
                          compute(0, BackwardWeight, 0, 6, 7)};
  timeline.summary.makespan = 7;
  timeline.summary.bubble_rate = 4.0 / 7;
  timeline.summary.devices.resize(2);
  for (plan::DeviceSummary& device : timeline.summary.devices) device.busy = 3;
  return timeline;
}

}  // namespace cleave::report::testing
