#include "edge/verify_flow.h"

#include "files.h"
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "cleave/base/check.h"
#include "cleave/report/text_table.h"
#include "cleave/train/step/owner_flow.h"
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

std::string flow_text(const std::vector<Crossing>& crossings,
                      const std::vector<std::string>& refused, const Owners& owners,
                      bool averages) {
  const std::string unit = averages ? "bytes/round" : "bytes/step";
  std::vector<std::vector<std::string>> rows = {
      {"from", "to", "what", unit, "made of data of", "path"}};
  for (const Crossing& crossing : crossings) {
    rows.push_back({owners[crossing.from].name,
                    fmt::format("{}", fmt::join(owner_names(crossing.to, owners), ", ")),
                    fmt::format("{}{}", name_of(crossing.what),
                                is_allowed(crossing, owners) ? "" : " (REFUSED)"),
                    fmt::format("{}", crossing.bytes),
                    fmt::format("{}", fmt::join(owner_names(crossing.origins, owners), ", ")),
                    crossing.path});
  }
  std::string text = report::text_table(rows);
  for (const std::string& sentence : refused) text += sentence + "\n";
  if (refused.empty())
    text +=
        fmt::format("verified: {} owners, and nothing else leaves any of them\n", owners.size());
  return text;
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
  const std::vector<std::string> refused = edge::refusals(crossings, owners);
  if (!refused.empty()) answer = Exit::Failed;
  write_file("", flags.json ? flow_json(crossings, refused, owners, config.edge.averages())
                            : flow_text(crossings, refused, owners, config.edge.averages()));
}

}  // namespace cleave::app
