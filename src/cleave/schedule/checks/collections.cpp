#include <algorithm>

#include "cleave/schedule/checks/checks.h"
#include "cleave/schedule/effects.h"

namespace cleave::schedule::checks {
namespace {

/// One stage that collects, on one of its devices.
class CollectionCheck {
 public:
  CollectionCheck(const Tables& tables, StageId stage, DeviceId device, Findings& findings)
      : t_(tables),
        stage_(stage),
        device_(device),
        last_(tables.segments[stage] - 1),
        findings_(findings) {}

  void check() {
    const auto& posted = t_.posted(stage_, t_.topology.replica[device_]);
    const auto is_collect = [](const Posting& p) { return p.op == Op::Collect; };
    const auto found = std::ranges::find_if(posted, is_collect);
    if (found == posted.end())
      return findings_.add(device_, -1, "the COLLECT of stage ", stage_, " is missing");
    const auto again = std::find_if(std::next(found), posted.end(), is_collect);
    if (again != posted.end()) return findings_.add(device_, again->post, "collects a second time");
    for (MicrobatchId m{0}; m < t_.topology.microbatches(device_); ++m) {
      const std::int32_t made = made_at(m);
      if (made > found->post)
        findings_.add(device_, found->post, "collects before instruction ", made,
                      " has brought what it needs of microbatch ", m);
      const std::int32_t read = forward_of(SegmentId{last_}, m);
      if (read < found->wait)
        findings_.add(device_, read, "runs before what the step has collected is there");
    }
  }

 private:
  std::int32_t forward_of(SegmentId segment, MicrobatchId m) const {
    const std::int64_t unit = t_.unit_index(stage_, t_.topology.of_replica(device_, m));
    const std::int32_t named = t_.piece_position(unit, segment, Op::Forward);
    return named >= 0 ? named : t_.units[unit].forward.last;
  }

  /// Where the x of the last segment is complete.
  std::int32_t made_at(MicrobatchId m) const {
    if (last_ > 0) return forward_of(SegmentId{last_ - 1}, m);
    std::int32_t made = -1;
    const OfReplica of = t_.topology.of_replica(device_, m);
    for (const int e : t_.topology.incoming[stage_]) {
      const bool crosses = t_.crosses(e, of.replica);
      const int from = t_.program.edges[e].from;
      made = std::max(made, crosses ? t_.message(e, Direction::Forward, of).receive_wait
                                    : t_.unit(from, of).forward.last);
    }
    return made;
  }

  const Tables& t_;
  StageId stage_;
  DeviceId device_;
  int last_;  // segment
  Findings& findings_;
};

}  // namespace

void check_collections(const Tables& tables, Findings& findings) {
  const Program& p = tables.program;
  for (const int stage : p.collecting) {
    for (const int device : holders_of(p, stage)) {
      if (tables.segments[stage] != p.segments[stage]) {
        findings.add(device, -1, "stage ", stage,
                     " runs as a whole, but its last segment runs once per step");
        continue;
      }
      CollectionCheck(tables, StageId{stage}, DeviceId{device}, findings).check();
    }
  }
}

}  // namespace cleave::schedule::checks
