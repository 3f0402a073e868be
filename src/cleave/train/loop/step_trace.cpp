#include "cleave/train/loop/step_trace.h"

#include <algorithm>
#include <type_traits>
#include <utility>
#include <vector>

namespace cleave::train {
namespace {

/// Calls `visit` for everything in the trace that has a device, a begin and an end.
void for_each(plan::Trace& trace, const auto& visit) {
  for (plan::Span& span : trace.spans) visit(span);
  for (plan::CollectiveSpan& exchange : trace.exchanges) visit(exchange);
}

/// Moves what each device did so that all NORMs end together, and the first span begins at 0.
void align(plan::Trace& trace) {
  std::vector<double> meeting(trace.devices, 0.0);
  for (const plan::Span& span : trace.spans) {
    if (span.instruction.op == schedule::Op::Norm) meeting[span.device] = span.end;
  }
  const double last = *std::ranges::max_element(meeting);
  double first = last;
  for (const plan::Span& span : trace.spans)
    first = std::min(first, span.begin + last - meeting[span.device]);
  for_each(trace, [&](auto& what) {
    what.begin += last - meeting[what.device] - first;
    what.end += last - meeting[what.device] - first;
  });
}

/// What every device has, on every device, in the order of their numbers.
template <class T>
std::vector<T> gather(std::span<const T> mine, comm::Communicator& world) {
  static_assert(std::is_trivially_copyable_v<T>);
  std::vector<double> counts(static_cast<std::size_t>(world.size()));
  counts[world.rank()] = static_cast<double>(mine.size());
  world.combine(counts, comm::Combine::Sum);
  std::vector<std::size_t> borders = {0};
  for (const double count : counts)
    borders.push_back(borders.back() + static_cast<std::size_t>(count) * sizeof(T));
  std::vector<T> all(borders.back() / sizeof(T));
  std::ranges::copy(mine,
                    all.begin() + static_cast<std::ptrdiff_t>(borders[world.rank()] / sizeof(T)));
  world.all_gather(std::as_writable_bytes(std::span(all)), borders).wait();
  return all;
}

/// Who has to do with a device's messages to another place: the first, where they go to several.
int peer_of(const Mesh& mesh, PlaceId place, int number, PlaceId other) {
  return mesh.device_at(other, number * mesh.devices_at(other) / mesh.devices_at(place));
}

/// A timeline of places becomes one of devices: those at a place run one list.
plan::Trace of_devices(const plan::Trace& places, const Mesh& mesh) {
  plan::Trace trace{.name = places.name, .unit = places.unit, .devices = mesh.devices()};
  for (int number = 0; number < mesh.most_at_a_place(); ++number) {
    for (plan::Span span : places.spans) {
      const PlaceId place{span.device};
      if (number >= mesh.devices_at(place)) continue;
      span.device = mesh.device_at(place, number);
      if (span.peer >= 0) span.peer = peer_of(mesh, place, number, PlaceId{span.peer});
      trace.spans.push_back(span);
    }
  }
  return trace;
}

TracedStep summarised(const engine::CompiledStep& compiled, const schedule::Program& program,
                      plan::Trace trace) {
  TracedStep step{.trace = std::move(trace)};
  step.summary = plan::summarise(program, step.trace);
  const std::vector<double> activations = plan::peak_activations(program);
  const std::vector<std::int64_t> bytes = plan::live_bytes(program);
  for (int d = 0; d < compiled.devices(); ++d) {
    step.summary.devices[d].peak_activations = activations[compiled.place_of(d)];
    step.summary.devices[d].peak_bytes = bytes[compiled.place_of(d)];
  }
  return step;
}

// The first begins on all devices at once, and later ones as the one before has ended.
constexpr int kStepsUntilSteady = 4;

/// [device] when it has done the last it had to do.
std::vector<double> ends_of(const plan::Trace& trace) {
  std::vector<double> ends(static_cast<std::size_t>(trace.devices), 0.0);
  for (const plan::Span& span : trace.spans)
    ends[span.device] = std::max(ends[span.device], span.end);
  return ends;
}

/// Which program takes as long as the middle one of the run's steps.
int middle_pattern(const engine::CompiledStep& compiled, const plan::Costs& costs,
                   const plan::SimulateOptions& options) {
  if (compiled.input_counts.empty()) return engine::StepInput::kFullest;
  std::vector<std::pair<double, std::size_t>> times;  // and which of the counts
  std::int64_t left = 0;
  for (std::size_t k = 0; k < compiled.input_counts.size(); ++k) {
    const int pattern = compiled.pattern_of(compiled.input_counts[k].microbatches);
    const schedule::Program& program = compiled.program_of(pattern);
    times.emplace_back(plan::summarise(program, plan::simulate(program, costs, options)).makespan,
                       k);
    left += compiled.input_counts[k].steps;
  }
  std::ranges::sort(times);
  left /= 2;  // steps that are shorter
  std::size_t at = 0;
  while (left >= compiled.input_counts[times[at].second].steps)
    left -= compiled.input_counts[times[at++].second].steps;
  return compiled.pattern_of(compiled.input_counts[times[at].second].microbatches);
}

}  // namespace

TracedStep predicted_step(const engine::CompiledStep& compiled, const plan::Costs& costs,
                          plan::SimulateOptions options) {
  options.links = plan::Links::Serialised;  // as wires are
  const schedule::Program& program = compiled.program_of(middle_pattern(compiled, costs, options));
  plan::Trace places = plan::simulate(program, costs, options);
  places.name = program.schedule + ", predicted";
  return summarised(compiled, program, of_devices(places, compiled.mesh));
}

double predicted_seconds(const engine::CompiledStep& compiled, const plan::Costs& costs,
                         plan::SimulateOptions options) {
  options.links = plan::Links::Serialised;
  const schedule::Program& program = compiled.program_of(middle_pattern(compiled, costs, options));
  options.record = plan::Record::DevicesOnly;
  options.starts.assign(static_cast<std::size_t>(program.devices), 0.0);
  double seconds = 0;
  const int steps = options.norm_way > 0 ? kStepsUntilSteady : 1;
  for (int step = 0; step < steps; ++step) {
    std::vector<double> ends = ends_of(plan::simulate(program, costs, options));
    seconds = 0;
    for (std::size_t d = 0; d < ends.size(); ++d)
      seconds = std::max(seconds, ends[d] - options.starts[d]);
    const double first = *std::ranges::min_element(ends);
    for (double& end : ends) end -= first;
    options.starts = std::move(ends);
  }
  return seconds;
}

TracedStep measured_step(const engine::CompiledStep& compiled, const engine::Executor& executor,
                         comm::Communicator& world, int pattern) {
  plan::Trace mine{.spans = {executor.spans().begin(), executor.spans().end()},
                   .exchanges = executor.exchanges()};
  for_each(mine, [&](auto& what) { what.device = world.rank(); });
  plan::Trace trace{
      .name = compiled.program.schedule + ", measured",
      .devices = compiled.devices(),
      .spans = gather(std::span<const plan::Span>(mine.spans), world),
      .exchanges = gather(std::span<const plan::CollectiveSpan>(mine.exchanges), world)};
  align(trace);
  return summarised(compiled, compiled.program_of(pattern), std::move(trace));
}

}  // namespace cleave::train
