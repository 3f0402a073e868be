#include "cleave/train/step_trace.h"

#include <algorithm>
#include <type_traits>
#include <vector>

namespace cleave::train {
namespace {

/// Moves the spans of each device so that their NORMs end together, and the first span begins at 0.
void align(plan::Trace& trace) {
  std::vector<double> meeting(trace.devices, 0.0);
  for (const plan::Span& span : trace.spans) {
    if (span.instruction.op == schedule::Op::Norm) meeting[span.device] = span.end;
  }
  const double last = *std::ranges::max_element(meeting);
  double first = last;
  for (plan::Span& span : trace.spans) {
    span.begin += last - meeting[span.device];
    span.end += last - meeting[span.device];
    first = std::min(first, span.begin);
  }
  for (plan::Span& span : trace.spans) {
    span.begin -= first;
    span.end -= first;
  }
}

plan::Trace gather_trace(std::span<const plan::Span> mine, const schedule::Program& program,
                         comm::Communicator* world) {
  static_assert(std::is_trivially_copyable_v<plan::Span>);
  plan::Trace trace{.name = program.schedule + ", measured", .devices = program.devices};
  if (world == nullptr) {
    trace.spans.assign(mine.begin(), mine.end());
    return trace;
  }
  std::vector<double> counts(static_cast<std::size_t>(world->size()));
  counts[world->rank()] = static_cast<double>(mine.size());
  world->combine(counts, comm::Combine::Sum);
  std::vector<std::size_t> borders = {0};
  for (double count : counts)
    borders.push_back(borders.back() + static_cast<std::size_t>(count) * sizeof(plan::Span));
  trace.spans.resize(borders.back() / sizeof(plan::Span));
  std::ranges::copy(mine, trace.spans.begin() + static_cast<std::ptrdiff_t>(borders[world->rank()] /
                                                                            sizeof(plan::Span)));
  world->all_gather(std::as_writable_bytes(std::span(trace.spans)), borders).wait();
  align(trace);
  return trace;
}

}  // namespace

TracedStep predicted_step(const schedule::Program& program, const plan::Costs& costs,
                          const plan::SimulateOptions& options) {
  TracedStep step{.trace = plan::simulate(program, costs, options)};
  step.trace.name = program.schedule + ", predicted";
  step.summary = plan::summarise(program, step.trace);
  return step;
}

TracedStep measured_step(const schedule::Program& program, std::span<const plan::Span> mine,
                         comm::Communicator* world) {
  TracedStep step{.trace = gather_trace(mine, program, world)};
  step.summary = plan::summarise(program, step.trace);
  return step;
}

}  // namespace cleave::train
