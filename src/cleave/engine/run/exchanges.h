#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "cleave/comm/exchange_log.h"
#include "cleave/engine/run/linked_program.h"
#include "cleave/plan/time/trace.h"

namespace cleave::engine {

/// How many collectives a step of `program` posts at most, those of NORM's numbers apart.
std::size_t most_exchanges(const LinkedProgram& program, std::span<Stage* const> stages);

/// What was logged during a step that began at `start`, each with the instruction that posted it:
/// `spans` are those of the step.
std::vector<plan::CollectiveSpan> exchanges_of(const comm::ExchangeLog& log,
                                               comm::Clock::time_point start,
                                               std::span<const plan::Span> spans);

}  // namespace cleave::engine
