#include "edge/flow_table.h"

#include <algorithm>
#include <iterator>
#include <limits>

#include "json_text.h"
#include <nlohmann/json.hpp>

#include "cleave/train/step/owner_flow.h"
#include "cleave/train/step/round_clients.h"

namespace cleave::app {
namespace {

/// What all rounds cost; without noise nothing bounds it. What noise on examples costs depends on
/// how many there are, and is at most what the run may cost.
double cost_of(const train::Config& config) {
  if (config.edge.by_example() && config.edge.epsilon > 0) return config.edge.epsilon;
  return config.edge.noise > 0 ? train::privacy_spent(config, config.train.steps)
                               : std::numeric_limits<double>::infinity();
}

}  // namespace

FlowTable flow_table(const train::Config& config, const engine::CompiledStep& step) {
  FlowTable table{.owners = train::flow_owners(config),
                  .crossings = train::owner_flow(config, step),
                  .asked = {.steps = config.train.steps,
                            .rounds = config.edge.averages(),
                            .epsilon = cost_of(config)}};
  table.refused = edge::refusals(table.crossings, table.owners);
  return table;
}

void hold_against(const edge::Policy& policy, FlowTable& table) {
  std::ranges::move(edge::policy_refusals(policy, table.asked, table.crossings, table.owners),
                    std::back_inserter(table.refused));
}

std::string to_json(const FlowTable& table) {
  nlohmann::json rows = nlohmann::json::array();
  for (const edge::Crossing& crossing : table.crossings) {
    rows.push_back({{"from", table.owners[crossing.from].name},
                    {"to", names_of(crossing.to, table)},
                    {"class", name_of(crossing.what)},
                    {"bytes", crossing.bytes},
                    {"origins", names_of(crossing.origins, table)},
                    {"path", crossing.path},
                    {"allowed", table.allows(crossing)}});
  }
  const nlohmann::json json = {{"verified", table.refused.empty()},
                               {"unit", table.asked.rounds ? "round" : "step"},
                               {"violations", table.refused},
                               {"flow", rows}};
  return json_text(json, 2);
}

std::vector<std::string> names_of(const std::vector<int>& indices, const FlowTable& table) {
  std::vector<std::string> names;
  for (const int owner : indices) names.push_back(table.owners[owner].name);
  return names;
}

}  // namespace cleave::app
