#include "cleave/engine/stage/parameter_sync.h"

#include <algorithm>
#include <utility>

#include "cleave/base/units.h"

namespace cleave::engine {

ParameterSync::ParameterSync(std::span<Stage* const> stages,
                             std::vector<comm::Communicator*> replicas)
    : stages_(stages.begin(), stages.end()), replicas_(std::move(replicas)) {
  std::size_t most = 0;
  for (std::size_t s = 0; s < stages_.size(); ++s) {
    if (stages_[s] == nullptr || replicas_[s]->size() == 1) continue;
    borders_.reserve(static_cast<std::size_t>(replicas_[s]->size()) + 1);
    std::size_t at_once = 0;
    for (const plan::SegmentState& segment : stages_[s]->parameters().layout().segments)
      at_once += segment.runs.size();
    replicas_[s]->make_room(at_once);
    most += at_once;
  }
  gatherings_.reserve(most);
}

namespace {

/// REFRESH brings shares of these together.
bool is_refreshed(const plan::ShareRun& run) {
  return run.trained && !run.borrowed;
}

std::int64_t run_host_bytes(const plan::ShareRun& run, std::int64_t element) {
  return aligned((run.end() - run.begin()) * element);
}

}  // namespace

void ParameterSync::post(StageId stage, SegmentId segment, const plan::ShareRun& run,
                         std::byte* whole, std::span<std::byte>& on_host) {
  const std::int64_t element = size_of(stages_[stage]->parameters().layout().options.dtype);
  borders_.clear();
  for (const std::int64_t border : run.borders)
    borders_.push_back(static_cast<std::size_t>((border - run.begin()) * element));
  const std::span<std::byte> values(whole + run.begin() * element, borders_.back());
  const std::size_t passes =
      on_host.empty() ? 0 : static_cast<std::size_t>(run_host_bytes(run, element));
  gatherings_.push_back(
      {stage, segment, replicas_[stage]->all_gather(values, borders_, {on_host.first(passes)})});
  on_host = on_host.subspan(passes);
}

void ParameterSync::finish_if(const auto& mine) {
  for (Gathering& gathering : gatherings_)
    if (mine(gathering)) gathering.pending.wait();
  std::erase_if(gatherings_, mine);
}

void ParameterSync::refresh(int stage, std::span<std::byte> on_host) {
  if (stages_[stage] == nullptr || replicas_[stage]->size() == 1) return;
  const StageParameters& parameters = stages_[stage]->parameters();
  if (parameters.layout().shares_values()) return;
  for (SegmentId segment{0}; segment < std::ssize(parameters.layout().segments); ++segment) {
    for (const plan::ShareRun& run : parameters.layout().segments[segment].runs) {
      if (is_refreshed(run))
        post(StageId{stage}, segment, run, parameters.whole_values(segment).data(), on_host);
    }
  }
}

void ParameterSync::finish(int stage) {
  finish_if([&](const Gathering& gathering) { return gathering.stage == stage; });
}

void ParameterSync::gather(StageId stage, SegmentId segment, std::span<std::byte> whole,
                           std::span<std::byte> on_host) {
  const StageParameters& parameters = stages_[stage]->parameters();
  parameters.copy_share(segment, whole.data());
  stages_[stage]->place_values(segment, whole.data());
  for (const plan::ShareRun& run : parameters.layout().segments[segment].runs)
    post(stage, segment, run, whole.data(), on_host);
}

std::int64_t ParameterSync::gather_host_bytes(const plan::StateLayout& state, int segment) {
  if (!state.shares_values() || state.options.replicas < 2) return 0;
  std::int64_t bytes = 0;
  for (const plan::ShareRun& run : state.segments[static_cast<std::size_t>(segment)].runs)
    bytes += run_host_bytes(run, size_of(state.options.dtype));
  return bytes;
}

std::int64_t ParameterSync::refresh_host_bytes(const plan::StateLayout& state, int segment) {
  if (state.shares_values() || state.options.replicas < 2) return 0;
  std::int64_t bytes = 0;
  for (const plan::ShareRun& run : state.segments[static_cast<std::size_t>(segment)].runs)
    if (is_refreshed(run)) bytes += run_host_bytes(run, size_of(state.options.dtype));
  return bytes;
}

void ParameterSync::finish(StageId stage, SegmentId segment) {
  finish_if([&](const Gathering& g) { return g.stage == stage && g.segment == segment; });
}

}  // namespace cleave::engine
