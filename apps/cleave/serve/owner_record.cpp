#include "serve/owner_record.h"

#include <algorithm>
#include <filesystem>

#include "edge/flow_table.h"
#include "edge/policy_file.h"

#include "cleave/base/check.h"
#include "cleave/base/file.h"
#include "cleave/comm/tcp/identity.h"

namespace cleave::app {

void check_and_record(const OwnerCheck& check, const train::Config& config,
                      const engine::CompiledStep& step, const std::string& directory) {
  FlowTable table = flow_table(config, step);
  require(std::ranges::find(table.owners, check.owner, &edge::Owner::name) != table.owners.end(),
          "the run has no owner \"", check.owner,
          "\"; pass one of its [[edge.owner]] with --owner");
  const std::string text = to_json(table);
  if (!check.policy.empty()) {
    const edge::Policy policy = read_policy(check.policy);
    require(policy.owner == check.owner, check.policy, " is the policy of ", policy.owner,
            ", and this device joins as ", check.owner, "; pass that of the owner");
    hold_against(policy, table);
  }
  if (!table.refused.empty()) throw UserError(table.refused.front());
  require(check.authority.empty() || comm::is_signed_by(check.authority, text, check.signature),
          "the server has signed another table of what leaves whom than this device works out; "
          "build cleave from the same source on both");
  const std::filesystem::path kept(directory);
  std::filesystem::create_directories(kept);
  write_text_atomically(kept / "flow.json", text);
  if (check.authority.empty()) return;
  write_text_atomically(kept / "flow.json.signature", check.signature + "\n");
  write_text_atomically(kept / "flow.json.signer.pem", check.authority);
}

}  // namespace cleave::app
