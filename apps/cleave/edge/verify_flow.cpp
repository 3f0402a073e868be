#include "edge/verify_flow.h"

#include "edge/flow_table.h"
#include "edge/policy_file.h"
#include "files.h"
#include <fmt/format.h>

#include "cleave/base/check.h"
#include "cleave/base/wrap.h"
#include "cleave/train/step/trainer.h"

namespace cleave::app {
namespace {

using edge::Crossing;

std::string joined(const std::vector<int>& indices, const FlowTable& table) {
  return fmt::format("{}", fmt::join(names_of(indices, table), ", "));
}

/// What crosses and how much of it, to whom, and below it the way that the first of it takes.
std::string row_text(const Crossing& crossing, const FlowTable& table) {
  const bool own = crossing.origins == std::vector<int>{crossing.from};
  const std::string whom = fmt::format("to {}{}{}", joined(crossing.to, table),
                                       own ? "" : ", of data of " + joined(crossing.origins, table),
                                       table.allows(crossing) ? "" : "  REFUSED");
  return fmt::format("  {:<14} {:>10}  ", name_of(crossing.what), crossing.bytes) + wrap(whom, 29) +
         "    " + wrap(crossing.path, 4);
}

std::string flow_text(const FlowTable& table) {
  std::string text;
  int sender = -1;
  for (const Crossing& crossing : table.crossings) {
    if (crossing.from != sender) {
      sender = crossing.from;
      text += fmt::format("{} sends, in bytes of a {}:\n", table.owners[sender].name,
                          table.asked.rounds ? "round" : "step");
    }
    text += row_text(crossing, table);
  }
  for (const std::string& sentence : table.refused) text += sentence + "\n";
  if (table.refused.empty())
    text += fmt::format("verified: {} owners, and nothing else leaves any of them\n",
                        table.owners.size());
  return text;
}

}  // namespace

void verify_flow(const FlowFlags& flags, Exit& answer) {
  const train::Config config = train::load_config(flags.config, {.overrides = flags.set});
  const engine::CompiledStep step =
      engine::compile(train::model_of(config), train::compile_options(config));
  FlowTable table = flow_table(config, step);
  require(!table.owners.empty(), flags.config,
          " has no owners, so nothing leaves anybody; add [[edge.owner]] tables (docs/edge.md)");
  for (const std::string& file : flags.policies) hold_against(read_policy(file), table);
  if (!table.refused.empty()) answer = Exit::Failed;
  write_file("", flags.json ? to_json(table) : flow_text(table));
}

}  // namespace cleave::app
