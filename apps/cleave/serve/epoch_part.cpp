#include "serve/epoch_part.h"

#include <memory>
#include <numeric>
#include <vector>

#include "serve/network.h"
#include <fmt/format.h>

#include "cleave/base/units.h"

namespace cleave::app {

void take_part(comm::Communicator& everyone, EpochPart part, const Train& train) {
  train::RunOptions options = shared_options(everyone, std::move(part.options));
  if (part.config.train.elastic) options.kept = &part.kept;
  // Every owner of an epoch takes part in it, whatever each of them does.
  const int devices = options.part ? everyone.size() : static_cast<int>(part.config.devices.count);
  if (everyone.rank() >= devices) return train::give_state(everyone, part.kept);
  std::unique_ptr<comm::Communicator> group;
  if (everyone.size() > devices) {
    std::vector<int> members(static_cast<std::size_t>(devices));
    std::iota(members.begin(), members.end(), 0);
    group = everyone.group(members);
    options.everyone = &everyone;
  }
  comm::ProcessLauncher launcher(group ? *group : everyone,
                                 comm::ProcessLauncher::Files::OfTheFirst);
  train(launcher, options);
}

std::string describe_memory(int device, const train::PlanMemory& memory) {
  if (memory.planned_bytes == 0) return "";
  if (memory.peak_bytes == memory.planned_bytes)
    return fmt::format("device {} held {} at most, as planned", device,
                       format_bytes(memory.peak_bytes));
  return fmt::format("device {} held {} B at most, where {} B were planned", device,
                     memory.peak_bytes, memory.planned_bytes);
}

}  // namespace cleave::app
