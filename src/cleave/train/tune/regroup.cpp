#include "cleave/train/tune/regroup.h"

#include <algorithm>
#include <vector>

#include "cleave/base/check.h"

namespace cleave::train {
namespace {

// What a device without a budget has beside others that have one.
constexpr std::int64_t kPlenty = std::int64_t{1} << 50;

std::vector<std::int64_t> budgets_of(std::span<const std::int64_t> memory) {
  if (std::ranges::all_of(memory, [](std::int64_t bytes) { return bytes == kUnlimited; }))
    return {};
  std::vector<std::int64_t> budgets;
  for (const std::int64_t bytes : memory) budgets.push_back(bytes == kUnlimited ? kPlenty : bytes);
  return budgets;
}

Config opened(const Config& config, std::span<const std::int64_t> memory) {
  Config open = on_devices(config, memory);
  open.parallel = {.order = config.parallel.order,
                   .schedule = "auto",
                   .sequence_parallel = config.parallel.sequence_parallel};
  for (Auto* axis :
       {&open.parallel.pipeline, &open.parallel.tensor, &open.parallel.data, &open.parallel.zero})
    axis->reset();
  open.parallel.recompute.reset();
  return open;
}

}  // namespace

Config on_devices(const Config& config, std::span<const std::int64_t> memory) {
  Config changed = config;
  changed.devices.count = std::ssize(memory);
  changed.devices.memory = budgets_of(memory);
  changed.devices.speed.clear();
  return changed;
}

Regrouping regroup(const Config& config, std::span<const std::int64_t> memory,
                   comm::Launcher& launcher, const DeviceFacts& facts) {
  Regrouping result;
  for (std::size_t count = memory.size(); count > 0; --count) {
    Config open = opened(config, memory.first(count));
    // Better with fewer copies than without a device.
    for (; open.train.copies >= 0; --open.train.copies) {
      try {
        const AutoPlan plan = plan_run(open, launcher, facts);
        if (!plan.fitting.empty()) {
          result.run = plan.choice();
          return result;
        }
        if (result.lack.empty()) result.lack = describe_excess(plan);
      } catch (const UserError& error) {
        // So many devices make no layout within the grid; one fewer may.
        if (count == 1 && result.lack.empty()) result.lack = error.what();
        break;
      }
    }
  }
  return result;
}

}  // namespace cleave::train
