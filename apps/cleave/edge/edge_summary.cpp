#include "edge/edge_summary.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "cleave/base/units.h"

namespace cleave::app {
namespace {

/// "1 epoch", "20 local steps".
std::string describe_work(const train::EdgeConfig& edge) {
  return counted(edge.sync_every, edge.sync_epochs ? "epoch" : "local step");
}

}  // namespace

std::string describe_owners(const train::Config& config) {
  const train::EdgeConfig& edge = config.edge;
  if (edge.averages())
    return fmt::format("averages {} of {} by {}, after {} of each; train.steps counts rounds\n",
                       edge.per_round(), counted(edge.client_count(), "client"), edge.outer,
                       describe_work(edge));
  const std::vector<int> owners = train::device_owners(config);
  if (owners.empty()) return "";
  std::string text = "owners:";
  for (std::size_t i = 0; i < config.edge.owners.size(); ++i) {
    text += fmt::format("{} {} has devices", i == 0 ? "" : ";", config.edge.owners[i].name);
    for (std::size_t device = 0; device < owners.size(); ++device)
      if (owners[device] == static_cast<int>(i)) text += fmt::format(" {}", device);
  }
  return text + " (what leaves whom: cleave verify --flow)\n";
}

std::string describe_rounds(const train::RunReport& report) {
  if (!report.averaged || report.averaged->rounds == 0) return "";
  const auto& [clients, rounds, participants, steps, up, down] = *report.averaged;
  return fmt::format(
      "{} of {}, {:.3g} of which took part in each, with {:.3g} local steps; a client sends {} and "
      "is sent {} in a round, {} in all\n",
      counted(rounds, "round"), counted(clients, "client"),
      static_cast<double>(participants) / static_cast<double>(rounds),
      static_cast<double>(steps) / static_cast<double>(participants), format_bytes(up),
      format_bytes(down), format_bytes(participants * (up + down)));
}

nlohmann::json rounds_json(const train::RunReport& report) {
  if (!report.averaged) return nullptr;
  const train::RunReport::Averaged& averaged = *report.averaged;
  return {{"clients", averaged.clients},
          {"rounds", averaged.rounds},
          {"participants", averaged.participants},
          {"local_steps", averaged.local_steps},
          {"up_bytes", averaged.up_bytes},
          {"down_bytes", averaged.down_bytes},
          {"bytes", averaged.participants * (averaged.up_bytes + averaged.down_bytes)}};
}

}  // namespace cleave::app
