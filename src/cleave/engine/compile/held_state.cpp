#include "cleave/engine/compile/held_state.h"

#include <algorithm>

#include "cleave/base/check.h"
#include "cleave/base/units.h"

namespace cleave::engine {
namespace {

/// Other devices that have the state of each device anyway.
int others_with_the_same(const CompiledStep& step) {
  std::size_t fewest = static_cast<std::size_t>(step.program.replicas);
  for (int s = 0; s < step.program.stages; ++s)
    fewest = std::min(fewest, holders_of(step.program, s).size());
  return step.zero > 0 ? 0 : static_cast<int>(fewest) - 1;
}

}  // namespace

std::int64_t state_bytes(const CompiledStep& step, int place) {
  std::int64_t bytes = 0;
  for (int s = 0; s < step.program.stages; ++s) {
    for (const int holder : holders_of(step.program, s))
      if (holder == place) bytes += step.memory[s].saved;
  }
  return bytes;
}

void plan_held_state(CompiledStep& step, int copies) {
  const int devices = step.devices();
  if (copies == 0 || devices == 1) return;
  step.copies = std::clamp(copies - others_with_the_same(step), 0, devices - 1);
  step.held_bytes.assign(static_cast<std::size_t>(step.program.devices), 0);
  for (int d = 0; d < devices; ++d) {
    std::int64_t bytes = state_bytes(step, step.place_of(d));
    for (int i = 1; i <= step.copies; ++i)
      bytes += 2 * state_bytes(step, step.place_of((d - i + devices) % devices));
    std::int64_t& held = step.held_bytes[step.place_of(d)];
    held = std::max(held, bytes);
  }
  for (int p = 0; p < step.program.devices; ++p) step.planned_bytes[p] += step.held_bytes[p];
}

void require_room_for_held_state(const CompiledStep& step) {
  for (int d = 0; d < std::ssize(step.budgets); ++d) {
    const std::int64_t planned = step.planned_on(d);
    if (planned <= step.budgets[d]) continue;
    throw DoesNotFit(detail::concat(
        "device ", d, " needs ", format_bytes(planned), " with train.copies, ",
        format_bytes(step.held_bytes[step.place_of(d)]), " of it for copies of state, and has ",
        format_bytes(step.budgets[d]), "; lower train.copies, or raise devices.memory"));
  }
}

}  // namespace cleave::engine
