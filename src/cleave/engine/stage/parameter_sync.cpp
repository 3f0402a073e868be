#include "cleave/engine/stage/parameter_sync.h"

#include <algorithm>
#include <utility>

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

void ParameterSync::post(int stage, int segment, const plan::ShareRun& run, std::byte* whole) {
  const std::int64_t element = size_of(stages_[stage]->parameters().layout().options.dtype);
  borders_.clear();
  for (const std::int64_t border : run.borders)
    borders_.push_back(static_cast<std::size_t>((border - run.begin()) * element));
  const std::span<std::byte> values(whole + run.begin() * element, borders_.back());
  gatherings_.push_back({stage, segment, replicas_[stage]->all_gather(values, borders_)});
}

void ParameterSync::finish_if(const auto& mine) {
  for (Gathering& gathering : gatherings_)
    if (mine(gathering)) gathering.pending.wait();
  std::erase_if(gatherings_, mine);
}

void ParameterSync::refresh(int stage) {
  if (stages_[stage] == nullptr || replicas_[stage]->size() == 1) return;
  const StageParameters& parameters = stages_[stage]->parameters();
  if (parameters.layout().shares_values()) return;
  for (int segment = 0; segment < static_cast<int>(parameters.layout().segments.size());
       ++segment) {
    for (const plan::ShareRun& run : parameters.layout().segments[segment].runs) {
      if (run.trained && !run.borrowed)
        post(stage, segment, run, parameters.whole_values(segment).data());
    }
  }
}

void ParameterSync::finish(int stage) {
  finish_if([&](const Gathering& gathering) { return gathering.stage == stage; });
}

void ParameterSync::refresh_all() {
  for (int s = 0; s < static_cast<int>(stages_.size()); ++s) refresh(s);
  finish_if([](const Gathering&) { return true; });
}

void ParameterSync::gather(int stage, int segment, std::span<std::byte> whole) {
  const StageParameters& parameters = stages_[stage]->parameters();
  parameters.copy_share(segment, whole.data());
  stages_[stage]->place_values(segment, whole.data());
  for (const plan::ShareRun& run : parameters.layout().segments[segment].runs)
    post(stage, segment, run, whole.data());
}

void ParameterSync::finish(int stage, int segment) {
  finish_if([&](const Gathering& g) { return g.stage == stage && g.segment == segment; });
}

}  // namespace cleave::engine
