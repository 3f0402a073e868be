#pragma once

#include "cleave/base/check.h"
#include "cleave/plan/time/trace.h"

namespace cleave::plan::testing {

/// What a device did of an instruction, by kind.
inline const Span& find(const Trace& trace, int device, SpanKind kind,
                        const schedule::Instruction& instruction) {
  for (const Span& span : trace.spans)
    if (span.device == device && span.kind == kind && span.instruction == instruction) return span;
  throw InternalError("no such span: " + schedule::to_string(instruction));
}

}  // namespace cleave::plan::testing
