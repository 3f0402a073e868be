#include <algorithm>
#include <map>
#include <tuple>

#include "cleave/schedule/checks/checks.h"
#include "cleave/schedule/effects.h"

namespace cleave::schedule::checks {
namespace {

std::string posting_text(const Posting& posting, int stage) {
  return to_string(Instruction{.op = posting.op, .stage = stage, .segment = posting.segment});
}

void collect(Tables& t, int device, Findings& findings) {
  const auto& list = t.program.lists[device];
  const int replica = t.topology.replica[device];
  std::map<std::tuple<Op, int, int>, std::size_t> open;  // op, stage, segment -> posting
  for (std::int32_t at = 0; at < std::ssize(list); ++at) {
    const Instruction& i = list[at];
    const Op op = subject(i);
    if (!is_posted_collective(op)) continue;
    auto& posted = t.postings[static_cast<std::size_t>(i.stage) * t.program.replicas + replica];
    const auto found = open.find({op, i.stage, i.segment});
    if (i.op != Op::Wait) {
      if (found != open.end())
        findings.add(device, at, "is posted again before instruction ", posted[found->second].post,
                     " is waited for");
      open[{op, i.stage, i.segment}] = posted.size();
      posted.push_back({.op = op, .segment = i.segment, .post = at});
    } else if (found == open.end()) {
      findings.add(device, at, "waits for what is not posted");
    } else {
      posted[found->second].wait = at;
      open.erase(found);
    }
  }
  for (const auto& [what, number] : open) {
    const auto& [op, stage, segment] = what;
    const Posting& posting =
        t.postings[static_cast<std::size_t>(stage) * t.program.replicas + replica][number];
    findings.add(device, posting.post, "the WAIT for ", posting_text(posting, stage),
                 " is missing");
  }
}

// What one replica posts first is one collective with what the others post first, whatever they
// call it.
void compare(const Tables& t, StageId stage, ReplicaId replica, Findings& findings) {
  const auto& first = t.posted(stage, ReplicaId{0});
  const auto& here = t.posted(stage, replica);
  const int device = t.program.placement[stage][replica];
  const int leader = t.program.placement[stage][0];
  for (std::size_t k = 0; k < std::max(first.size(), here.size()); ++k) {
    if (k >= here.size())
      return findings.add(device, -1, posting_text(first[k], stage), " is missing; device ", leader,
                          " posts it");
    if (k >= first.size())
      return findings.add(device, here[k].post, "is posted by this replica, but not by device ",
                          leader);
    if (here[k].op != first[k].op || here[k].segment != first[k].segment)
      return findings.add(device, here[k].post, "is posted where device ", leader, " posts ",
                          posting_text(first[k], stage));
  }
}

}  // namespace

void check_postings(Tables& tables, Findings& findings) {
  for (int device = 0; device < tables.program.devices; ++device)
    if (tables.topology.replica[device] >= 0) collect(tables, device, findings);
  for (int stage = 0; stage < tables.program.stages; ++stage)
    for (const int device : holders_of(tables.program, stage))
      compare(tables, StageId{stage}, tables.topology.replica[device], findings);
}

}  // namespace cleave::schedule::checks
