#include "cleave/schedule/checks/posted_collectives.h"

#include <utility>

#include "cleave/base/check.h"

namespace cleave::schedule::checks {

PostedCollectives::PostedCollectives(const Tables& tables)
    : t_(tables),
      next_(static_cast<std::size_t>(tables.program.stages) * tables.program.replicas, 0) {
  std::size_t count = 0;
  for (StageId stage{0}; stage < t_.program.stages; ++stage) {
    first_.push_back(count);
    count += t_.posted(stage, ReplicaId{0}).size();
  }
  collectives_.resize(count);
}

std::size_t PostedCollectives::awaited(int device, std::int32_t wait) const {
  const int stage = t_.program.lists[device][wait].stage;
  return first_[stage] + t_.completed_by(StageId{stage}, t_.topology.replica[device], wait);
}

// All replicas post those of a stage in one order, so that the number says which it is.
std::vector<int> PostedCollectives::post(int device, int stage) {
  const int replica = t_.topology.replica[device];
  int& next = next_[static_cast<std::size_t>(stage) * t_.program.replicas + replica];
  Collective& posted = collectives_[first_[stage] + static_cast<std::size_t>(next++)];
  if (++posted.posted < holders(device)) return {};
  return std::exchange(posted.waiting, {});
}

std::int32_t PostedCollectives::post_of(int device, int stage, std::size_t collective) const {
  return t_.posted(StageId{stage}, t_.topology.replica[device])[collective - first_[stage]].post;
}

int PostedCollectives::missing(std::size_t collective, int stage,
                               std::span<const std::int32_t> at) {
  int& missing = collectives_[collective].missing;
  for (const int device : t_.program.placement[stage]) {
    if (missing >= 0) break;
    if (at[device] <= post_of(device, stage, collective)) missing = device;
  }
  CLEAVE_CHECK(missing >= 0, "all have posted a collective of stage ", stage,
               " that somebody waits for");
  return missing;
}

}  // namespace cleave::schedule::checks
