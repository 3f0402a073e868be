#include "cleave/train/loop/state_in_memory.h"

#include <algorithm>

#include "cleave/train/loop/run.h"

namespace cleave::train {

bool can_keep_state(const engine::CompiledStep& compiled) {
  return std::ranges::all_of(compiled.device_kinds,
                             [](const std::string& kind) { return kind == "cpu"; });
}

bool has_frozen(const Graph& model) {
  return std::ranges::any_of(model.segments, [](const SegmentSpec& segment) {
    return std::ranges::any_of(segment.layers, [](const LayerSpec& layer) {
      return std::ranges::any_of(
          layer.parameters, [](const ParameterSpec& parameter) { return !parameter.trainable; });
    });
  });
}

std::optional<MovedState> state_in_memory(const StateSearch& search, const Config& config,
                                          StartOptions& start) {
  const engine::CompiledStep& compiled = search.compiled;
  const int device = search.everyone.rank();
  if (!compiled.budgets.empty())
    search.kept.make_room_for(compiled.planned_on(device), compiled.budgets[device]);
  const std::int64_t saved = device == 0 ? saved_step(config, start) : -1;
  std::optional<MovedState> moved =
      find_state(search.everyone, search.kept, state_sizes(compiled.model, search.layout), saved);
  if (moved)
    start.in_memory = has_frozen(compiled.model) ? InMemory::WhatIsTrained : InMemory::Everything;
  return moved;
}

void give_state(comm::Communicator& everyone, const KeptState& kept) {
  if (const std::optional<MovedState> moved = find_state(everyone, kept, {}, 0))
    move_state(everyone, *moved, kept, {});
}

}  // namespace cleave::train
