#include "edge/verify_flow.h"

#include <algorithm>
#include <iterator>
#include <limits>

#include "edge/policy_file.h"
#include "files.h"
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "cleave/base/check.h"
#include "cleave/train/step/owner_flow.h"
#include "cleave/train/step/round_clients.h"
#include "cleave/train/step/trainer.h"

namespace cleave::app {
namespace {

using edge::Crossing;
using Owners = std::vector<edge::Owner>;

std::vector<std::string> owner_names(const std::vector<int>& indices, const Owners& owners) {
  std::vector<std::string> names;
  for (const int owner : indices) names.push_back(owners[owner].name);
  return names;
}

bool is_allowed(const Crossing& crossing, const Owners& owners) {
  return owners[crossing.from].may_send(crossing.what);
}

std::string flow_json(const std::vector<Crossing>& crossings,
                      const std::vector<std::string>& refused, const Owners& owners,
                      bool averages) {
  nlohmann::json rows = nlohmann::json::array();
  for (const Crossing& crossing : crossings) {
    rows.push_back({{"from", owners[crossing.from].name},
                    {"to", owner_names(crossing.to, owners)},
                    {"class", name_of(crossing.what)},
                    {"bytes", crossing.bytes},
                    {"origins", owner_names(crossing.origins, owners)},
                    {"path", crossing.path},
                    {"allowed", is_allowed(crossing, owners)}});
  }
  const nlohmann::json json = {{"verified", refused.empty()},
                               {"unit", averages ? "round" : "step"},
                               {"violations", refused},
                               {"flow", rows}};
  return json.dump(2) + "\n";
}

std::string joined(const std::vector<int>& indices, const Owners& owners) {
  return fmt::format("{}", fmt::join(owner_names(indices, owners), ", "));
}

/// What crosses and how much of it, to whom, and below it the way that the first of it takes.
std::string row_text(const Crossing& crossing, const Owners& owners) {
  const bool own = crossing.origins == std::vector<int>{crossing.from};
  return fmt::format("  {:<14} {:>10}  to {}{}{}\n    {}\n", name_of(crossing.what), crossing.bytes,
                     joined(crossing.to, owners),
                     own ? "" : ", of data of " + joined(crossing.origins, owners),
                     is_allowed(crossing, owners) ? "" : "  REFUSED", crossing.path);
}

std::string flow_text(const std::vector<Crossing>& crossings,
                      const std::vector<std::string>& refused, const Owners& owners,
                      bool averages) {
  std::string text;
  int sender = -1;
  for (const Crossing& crossing : crossings) {
    if (crossing.from != sender) {
      sender = crossing.from;
      text += fmt::format("{} sends, in bytes of a {}:\n", owners[sender].name,
                          averages ? "round" : "step");
    }
    text += row_text(crossing, owners);
  }
  for (const std::string& sentence : refused) text += sentence + "\n";
  if (refused.empty())
    text +=
        fmt::format("verified: {} owners, and nothing else leaves any of them\n", owners.size());
  return text;
}

/// What all rounds cost; without noise nothing bounds it.
double cost_of(const train::Config& config) {
  return config.edge.noise > 0 ? train::privacy_spent(config, config.train.steps)
                               : std::numeric_limits<double>::infinity();
}

}  // namespace

void verify_flow(const FlowFlags& flags, Exit& answer) {
  const train::Config config = train::load_config(flags.config, {.overrides = flags.set});
  const Owners owners = train::flow_owners(config);
  require(!owners.empty(), flags.config,
          " has no owners, so nothing leaves anybody; add [[edge.owner]] tables (docs/edge.md)");
  const engine::CompiledStep step =
      engine::compile(train::model_of(config), train::compile_options(config));
  const std::vector<Crossing> crossings = train::owner_flow(config, step);
  std::vector<std::string> refused = edge::refusals(crossings, owners);
  const edge::AskedOfOwners asked{
      .steps = config.train.steps, .rounds = config.edge.averages(), .epsilon = cost_of(config)};
  for (const std::string& file : flags.policies)
    std::ranges::move(edge::policy_refusals(read_policy(file), asked, crossings, owners),
                      std::back_inserter(refused));
  if (!refused.empty()) answer = Exit::Failed;
  write_file("", flags.json ? flow_json(crossings, refused, owners, config.edge.averages())
                            : flow_text(crossings, refused, owners, config.edge.averages()));
}

}  // namespace cleave::app
