#include "cleave/engine/run/device_kinds.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <vector>

#include "cleave/base/check.h"
#include "cleave/base/units.h"

namespace cleave::engine {
namespace {

/// What a device has in the memory of its accelerator: the copy that is saved stays on the host.
std::int64_t accelerated_bytes(const CompiledStep& step, int device) {
  const std::int64_t staging =
      step.staging_bytes.empty() ? 0 : step.staging_bytes[step.place_of(device)];
  return step.planned_on(device) - staging;
}

bool is_processor(const CompiledStep& step, int device) {
  return step.kind_of(device) == "cpu";
}

/// The devices of the run that this process computes for.
std::vector<int> devices_here(const CompiledStep& step, comm::Launcher& launcher) {
  if (launcher.has_own_processes(step.devices())) return {launcher.processes().rank()};
  std::vector<int> all(static_cast<std::size_t>(step.devices()));
  std::iota(all.begin(), all.end(), 0);
  return all;
}

}  // namespace

void check_devices(const CompiledStep& step, comm::Launcher& launcher) {
  const std::vector<int> devices = devices_here(step, launcher);
  if (std::ranges::all_of(devices, [&](int device) { return is_processor(step, device); })) return;
  const ops::Accelerators found = ops::find_accelerators();
  std::map<std::string, std::int64_t> planned;
  for (const int device : devices) {
    const auto* info = ops::choose_accelerator(found, step.kind_of(device), device);
    if (info == nullptr) continue;
    const std::int64_t bytes = planned[info->kind] += accelerated_bytes(step, device);
    if (bytes <= info->memory) continue;
    throw DoesNotFit(detail::concat("the plan puts ", format_bytes(bytes), " on ", info->kind, " (",
                                    info->name, "), which has ", format_bytes(info->memory),
                                    "; use a smaller model or more accelerators"));
  }
}

std::unique_ptr<ops::Accelerator> open_device(const CompiledStep& step, int device) {
  if (is_processor(step, device)) return nullptr;
  const ops::Accelerators found = ops::find_accelerators();
  return ops::open_accelerator(*ops::choose_accelerator(found, step.kind_of(device), device));
}

}  // namespace cleave::engine
