#include "cleave/engine/run/exchanges.h"

#include <algorithm>
#include <chrono>

#include "cleave/parallel/traffic.h"

namespace cleave::engine {
namespace {

using schedule::Op;

double seconds(comm::Clock::duration time) {
  return std::chrono::duration<double>(time).count();
}

/// In one pass through a segment.
std::size_t inside_layers(const SegmentSpec& segment) {
  std::size_t count = 0;
  for (const LayerSpec& layer : segment.layers) count += parallel::most_collectives(layer);
  return count;
}

/// A sum or a gathering of a segment's parameters.
std::size_t over_replicas(const Stage& stage, int segment) {
  const auto& runs = stage.parameters().layout().segments[static_cast<std::size_t>(segment)].runs;
  return std::max<std::size_t>(1, runs.size());
}

/// What replicas have updated of a stage.
std::size_t refreshing(const Stage& stage) {
  std::size_t count = 0;
  const int segments = static_cast<int>(stage.segments().size());
  for (int s = 0; s < segments; ++s) count += over_replicas(stage, s);
  return count;
}

}  // namespace

std::size_t most_exchanges(const LinkedProgram& program, std::span<Stage* const> stages) {
  std::size_t count = 0;
  for (const LinkedInstruction& entry : program.instructions) {
    const schedule::Instruction& i = entry.instruction;
    const int segment = std::max(i.segment, 0);
    if (i.op == Op::Tie || i.op == Op::Collect || !entry.gathered.empty()) ++count;
    if (i.stage < 0 || stages[i.stage] == nullptr) continue;
    const Stage& stage = *stages[i.stage];
    if (schedule::is_compute(i.op)) count += inside_layers(stage.segments()[segment]);
    if (i.op == Op::Reduce || i.op == Op::Gather) count += over_replicas(stage, segment);
    if (i.op == Op::Refresh) count += refreshing(stage);
  }
  return count;
}

std::vector<plan::CollectiveSpan> exchanges_of(const comm::ExchangeLog& log,
                                               comm::Clock::time_point start,
                                               std::span<const plan::Span> spans) {
  std::vector<plan::CollectiveSpan> exchanges;
  auto span = spans.begin();
  for (const comm::LoggedCollective& logged : log.exchanges()) {
    const double begin = seconds(logged.begin - start);
    while (span != spans.end() && span->end < begin) ++span;
    if (span == spans.end()) break;
    exchanges.push_back({.device = span->device,
                         .kind = logged.kind,
                         .begin = begin,
                         .end = seconds(logged.end - start),
                         .waited_before = seconds(logged.spent_before),
                         .waited = seconds(logged.spent),
                         .bytes = logged.bytes,
                         .instruction = span->instruction});
  }
  return exchanges;
}

}  // namespace cleave::engine
