#include "cleave/plan/time/trace.h"

#include <algorithm>
#include <limits>

#include "cleave/base/check.h"
#include "cleave/base/units.h"
#include "cleave/schedule/effects.h"

namespace cleave::plan {

using schedule::Instruction;
using schedule::Op;
using schedule::Program;

SpanKind span_kind(Op op) {
  switch (op) {
    case Op::Forward:
    case Op::BackwardInput:
    case Op::BackwardWeight:
    case Op::Backward:
    case Op::Recompute:
      return SpanKind::Compute;
    case Op::Step:
      return SpanKind::Update;
    case Op::Gather:
    case Op::Reduce:
    case Op::Tie:
    case Op::Norm:
    case Op::Refresh:
    case Op::Collect:
      return SpanKind::Collective;
    case Op::Send:
    case Op::Receive:
    case Op::Wait:
    case Op::Free:
    case Op::Out:
    case Op::In:
      return SpanKind::Wait;
  }
  CLEAVE_CHECK(false, "unknown op ", static_cast<int>(op));
  return SpanKind::Wait;
}

namespace {

void add(DeviceSummary& device, const Span& span) {
  const double length = span.end - span.begin;
  switch (span.kind) {
    case SpanKind::Compute:
      device.first_start = std::min(device.first_start, span.begin);
      device.compute += length;
      device.busy += length;
      device.last_end = std::max(device.last_end, span.end);
      break;
    case SpanKind::Update:
      device.busy += length;
      break;
    case SpanKind::Collective:
      device.collective += length;
      break;
    case SpanKind::Wait:
      device.wait += length;
      break;
    case SpanKind::Transfer:
      break;
  }
}

}  // namespace

double makespan(const Trace& trace) {
  double end = 0;
  for (const Span& span : trace.spans) end = std::max(end, span.end);
  return end;
}

Summary summarise(const Program& program, const Trace& trace) {
  Summary summary{.makespan = makespan(trace)};
  summary.devices.resize(trace.devices);
  for (DeviceSummary& device : summary.devices)
    device.first_start = std::numeric_limits<double>::infinity();
  for (const Span& span : trace.spans) {
    CLEAVE_CHECK(span.device >= 0 && span.device < trace.devices, "span on device ", span.device);
    add(summary.devices[span.device], span);
  }

  double busy = 0;
  for (DeviceSummary& device : summary.devices) {
    device.first_start = std::min(device.first_start, device.last_end);  // a device without compute
    summary.cost = std::max(summary.cost, device.last_end - device.first_start);
    summary.work = std::max(summary.work, device.compute);
    busy += device.busy;
  }
  if (summary.cost > 0) summary.bubble_rate = (summary.cost - summary.work) / summary.cost;
  if (summary.makespan > 0) summary.idle = 1 - busy / (trace.devices * summary.makespan);

  const std::vector<double> activations = peak_activations(program);
  const std::vector<std::int64_t> bytes = live_bytes(program);
  for (int d = 0; d < std::min(trace.devices, program.devices); ++d) {
    summary.devices[d].peak_activations = activations[d];
    summary.devices[d].peak_bytes = bytes[d];
  }
  return summary;
}

namespace {

// How many pieces of F have started and of its last pass have ended, for one stage and microbatch.
struct Life {
  int forward = 0;
  int ended = 0;
};

// What a microbatch lives for: W, or I where there is no W, or F where there is no backward.
bool is_last_pass(const Program& program, const Instruction& i) {
  const schedule::GradientKind kind = gradients_of(program, i.stage);
  if (makes_weight_gradient(kind)) return writes(i.op, schedule::Thing::Gradients);
  return i.op == (makes_input_gradient(kind) ? Op::BackwardInput : Op::Forward);
}

int peak_alive(const std::vector<Instruction>& list, const Program& program, int microbatches) {
  std::vector<Life> lives(static_cast<std::size_t>(program.stages) * microbatches);
  int alive = 0;
  int peak = 0;
  for (const Instruction& instruction : list) {
    if (!schedule::is_compute(instruction.op)) continue;
    const bool forward = instruction.op == Op::Forward;
    const bool last = is_last_pass(program, instruction);
    if (!forward && !last) continue;
    Life& life =
        lives[static_cast<std::size_t>(instruction.stage) * microbatches + instruction.microbatch];
    const int pieces = instruction.segment < 0 ? 1 : program.segments[instruction.stage];
    if (forward && life.forward++ == 0) peak = std::max(peak, ++alive);
    if (last && ++life.ended == pieces) --alive;
  }
  return peak;
}

}  // namespace

Overlap overlap(std::span<const CollectiveSpan> exchanges, bool (*counts)(Op)) {
  Overlap result;
  double end = 0;     // of what was on its way at once
  double waited = 0;  // by then
  for (const CollectiveSpan& exchange : exchanges) {
    if (!counts(exchange.instruction.op) || exchange.end <= end) continue;
    const bool joins = exchange.begin < end;
    const double length = exchange.end - (joins ? end : exchange.begin);
    const double by_end = exchange.waited_before + exchange.waited;
    result.in_flight += length;
    result.hidden += length - (by_end - (joins ? waited : exchange.waited_before));
    end = exchange.end;
    waited = by_end;
  }
  return result;
}

std::vector<double> peak_activations(const Program& program) {
  const schedule::Topology topology(program);
  std::vector<double> peaks(program.devices, 0.0);
  for (int d = 0; d < program.devices; ++d) {
    const std::size_t chunks = topology.stages[d].size();
    if (chunks > 0)
      peaks[d] = peak_alive(program.lists[d], program, topology.microbatches(d)) /
                 static_cast<double>(chunks);
  }
  return peaks;
}

std::vector<std::int64_t> live_bytes(const Program& program) {
  // Per device and instruction: bytes that begin there, and bytes that ended just before.
  std::vector<std::vector<std::int64_t>> change(program.devices);
  for (int d = 0; d < program.devices; ++d) change[d].assign(program.lists[d].size() + 2, 0);
  for (const schedule::Buffer& buffer : program.buffers) {
    if (is_outside(buffer) || is_on_host(buffer)) continue;
    change[buffer.device].at(buffer.first) += aligned(buffer.bytes);
    change[buffer.device].at(buffer.last + 1) -= aligned(buffer.bytes);
  }

  std::vector<std::int64_t> peaks(program.devices, 0);
  for (int d = 0; d < program.devices; ++d) {
    std::int64_t live = 0;
    for (const std::int64_t delta : change[d]) peaks[d] = std::max(peaks[d], live += delta);
  }
  return peaks;
}

}  // namespace cleave::plan
