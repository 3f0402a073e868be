#include <algorithm>
#include <map>

#include "cleave/schedule/checks/checks.h"

namespace cleave::schedule::checks {
namespace {

void check_sizes(const Program& p, Findings& findings) {
  const auto positive = [&](int value, const char* what) {
    if (value < 1)
      findings.add(-1, -1, "the header says ", value, " ", what, "; it needs 1 or more");
  };
  positive(p.stages, "stages");
  positive(p.devices, "devices");
  positive(p.replicas, "replicas");
  positive(p.microbatches, "microbatches");

  const auto matches = [&](std::size_t size, int wanted, const char* what) {
    if (static_cast<std::int64_t>(size) != wanted)
      findings.add(-1, -1, what, " has ", size, " entries, but the header says ", wanted);
  };
  matches(p.placement.size(), p.stages, "the placement of stages");
  matches(p.segments.size(), p.stages, "the list of segments per stage");
  matches(p.lists.size(), p.devices, "the list of instruction lists");
  if (!p.budgets.empty()) matches(p.budgets.size(), p.devices, "the list of budgets");
  if (!p.outside_budgets.empty())
    matches(p.outside_budgets.size(), p.devices, "the list of outside budgets");
  for (std::size_t k = 0; k < p.through_host.size(); ++k) {
    const int device = p.through_host[k];
    if (!is_within(device, p.devices) || (k > 0 && device <= p.through_host[k - 1]))
      findings.add(-1, -1, "the devices that pass messages through the host name device ", device,
                   "; they are given once each, in order, below ", p.devices);
  }
  if (!p.sharing.empty()) matches(p.sharing.size(), p.stages, "what replicas share");
  if (!p.gradients.empty()) matches(p.gradients.size(), p.stages, "the list of gradient kinds");
}

// A device stands for the same neighbouring replicas in all of its stages, and all devices of a
// stage for equally many: which microbatch an instruction names follows from its number.
class PlacementCheck {
 public:
  PlacementCheck(const Program& program, Findings& findings)
      : p_(program), findings_(findings), first_(p_.devices, -1), count_(p_.devices, 0) {}

  void stage(int stage) {
    const std::vector<int>& devices = p_.placement[stage];
    const auto after = [&](int replica) {
      int end = replica + 1;
      while (end < p_.replicas && devices[end] == devices[replica]) ++end;
      return end;
    };
    const int each = after(0);
    for (int first = 0; first < p_.replicas; first = after(first)) {
      const int count = after(first) - first;
      if (count != each)
        return findings_.add(-1, -1, "stage ", stage, " has a device that stands for ", each,
                             " replicas and one that stands for ", count,
                             "; make them equally many");
      hold(devices[first], first, count);
    }
  }

 private:
  void hold(int device, int first, int count) {
    if (first_[device] < 0) {
      first_[device] = first;
      count_[device] = count;
    } else if (first_[device] != first) {
      findings_.add(device, -1, "holds stages of replicas ", first_[device], " and ", first,
                    "; a device works for the same replicas in all of its stages");
    } else if (count_[device] != count) {
      findings_.add(device, -1, "stands for ", count_[device], " replicas of one stage and ", count,
                    " of another; a device works for the same replicas in all of its stages");
    }
  }

  const Program& p_;
  Findings& findings_;
  std::vector<int> first_;  // [device] replica, -1: holds no stage
  std::vector<int> count_;  // [device]
};

void check_placement(const Program& p, Findings& findings) {
  for (int stage = 0; stage < p.stages; ++stage) {
    const std::vector<int>& devices = p.placement[stage];
    if (static_cast<std::int64_t>(devices.size()) != p.replicas) {
      findings.add(-1, -1, "stage ", stage, " is placed on ", devices.size(),
                   " devices, one per replica would be ", p.replicas);
      continue;
    }
    for (const int device : devices)
      if (!is_within(device, p.devices))
        findings.add(-1, -1, "stage ", stage, " is placed on device ", device, ", but there are ",
                     p.devices);
  }
  if (findings.any()) return;
  PlacementCheck check(p, findings);
  for (int stage = 0; stage < p.stages; ++stage) check.stage(stage);
}

int holder_count(const Program& p, int stage) {
  return static_cast<int>(holders_of(p, stage).size());
}

void check_stage_joints(const Program& p, Findings& findings) {
  for (int stage = 0; stage < p.stages; ++stage)
    if (p.segments[stage] < 1 || p.segments[stage] > kMostSegments)
      findings.add(-1, -1, "stage ", stage, " has ", p.segments[stage], " segments, not 1 to ",
                   kMostSegments);
  const std::int64_t most = static_cast<std::int64_t>(p.stages) * kMostEdgesPerStage;
  if (std::ssize(p.edges) > most || std::ssize(p.ties) > most)
    findings.add(-1, -1, "has ", p.edges.size(), " edges and ", p.ties.size(), " ties for ",
                 p.stages, " stages; more than ", kMostEdgesPerStage, " per stage are not taken");
  for (std::size_t i = 0; i < p.edges.size(); ++i) {
    const Edge& edge = p.edges[i];
    if (!is_within(edge.from, p.stages) || !is_within(edge.to, p.stages) || edge.from == edge.to)
      findings.add(-1, -1, "edge ", i, " joins stages ", edge.from, " and ", edge.to,
                   ", not two of the ", p.stages);
    else if (edge.forward_bytes < 0 || edge.backward_bytes < 0)
      findings.add(-1, -1, "edge ", i, " has negative bytes");
  }
  for (std::size_t i = 0; i < p.ties.size(); ++i) {
    const Tie& tie = p.ties[i];
    if (!is_within(tie.first, p.stages) || !is_within(tie.second, p.stages)) {
      findings.add(-1, -1, "tie ", i, " joins stages ", tie.first, " and ", tie.second,
                   ", but there are ", p.stages);
      continue;
    }
    for (const int stage : {tie.first, tie.second})
      if (!makes_weight_gradient(gradients_of(p, stage)))
        findings.add(-1, -1, "tie ", i, " adds up gradients of stage ", stage, ", which is frozen");
    if (holder_count(p, tie.first) != holder_count(p, tie.second))
      findings.add(-1, -1, "tie ", i, " joins stage ", tie.first, " on ",
                   holder_count(p, tie.first), " devices and stage ", tie.second, " on ",
                   holder_count(p, tie.second), "; they need equally many");
  }
}

// Segments read what comes before them: of their own stage, or of the one that an edge comes from.
// An edge carries one tensor.
void check_segment_reads(const Program& p, Findings& findings) {
  if (p.reads.empty()) return;
  std::vector<int> made(p.edges.size(), -1);
  for (const SegmentRead& read : p.reads) {
    const bool inside = read.edge == -1;
    if (!is_within(read.stage, p.stages) || !is_within(read.segment, p.segments[read.stage]) ||
        (!inside &&
         (!is_within(read.edge, std::ssize(p.edges)) || p.edges[read.edge].to != read.stage)))
      return findings.add(-1, -1, "segment ", read.segment, " of stage ", read.stage,
                          " reads edge ", read.edge, ", one of which does not exist");
    const int maker = inside ? read.stage : p.edges[read.edge].from;
    if (!is_within(read.from, inside ? read.segment : p.segments[maker]))
      return findings.add(-1, -1, "segment ", read.segment, " of stage ", read.stage,
                          " reads segment ", read.from, " of stage ", maker,
                          ", which does not come before it");
    if (inside) continue;
    if (made[read.edge] >= 0 && made[read.edge] != read.from)
      return findings.add(-1, -1, "edge ", read.edge, " carries segments ", made[read.edge],
                          " and ", read.from, "; it carries one");
    made[read.edge] = read.from;
  }
  for (std::size_t e = 0; e < made.size(); ++e)
    if (made[e] < 0) findings.add(-1, -1, "edge ", e, " is read by no segment");
}

// An edge has a gradient if its reader makes one and its maker wants it.
void check_gradient_kinds(const Program& p, Findings& findings) {
  for (std::size_t e = 0; e < p.edges.size(); ++e) {
    const Edge& edge = p.edges[e];
    if (!edge.backward) continue;
    if (!makes_input_gradient(gradients_of(p, edge.to)))
      findings.add(-1, -1, "edge ", e, " carries a gradient back, but stage ", edge.to,
                   " makes none");
    if (gradients_of(p, edge.from) == GradientKind::None)
      findings.add(-1, -1, "edge ", e, " carries a gradient back, but stage ", edge.from,
                   " has no use for it");
  }
}

// What runs once per step reads every microbatch.
void check_collecting(const Program& p, Findings& findings) {
  int before = -1;
  for (const int stage : p.collecting) {
    if (!is_within(stage, p.stages) || stage <= before)
      return findings.add(-1, -1, "stages that collect are not in order, or stage ", stage,
                          " does not exist");
    before = stage;
    for (const Absence& a : p.absent)
      if (a.stage == stage)
        return findings.add(-1, -1, "stage ", stage, " collects all microbatches, but is absent ",
                            "from microbatch ", a.microbatch);
  }
}

// A stage takes part where somebody does that it gets a gradient from. Counted by absent readers.
class Presence {
 public:
  Presence(const Program& program, Findings& findings)
      : p_(program), findings_(findings), readers_(program.stages), makers_(program.stages) {
    for (const Edge& edge : p_.edges) {
      if (!edge.backward) continue;
      makers_[edge.to].push_back(edge.from);
      ++readers_[edge.from];
    }
  }

  void check() {
    const Absence* before = nullptr;
    for (const Absence& a : p_.absent) {
      const bool everywhere = a.replica == Absence::kEveryReplica;
      if (!is_within(a.stage, p_.stages) || !is_within(a.microbatch, p_.microbatches))
        return findings_.add(-1, -1, "stage ", a.stage, " is absent from microbatch ", a.microbatch,
                             ", one of which does not exist");
      if (!everywhere && !is_within(a.replica, p_.replicas))
        return findings_.add(-1, -1, "stage ", a.stage, " is absent from microbatch ", a.microbatch,
                             " of replica ", a.replica, ", which does not exist");
      if (before != nullptr && (a <= *before || repeats(a, *before)))
        return findings_.add(-1, -1, "absences are not in order, or written twice");
      before = &a;
      work_ += std::ssize(makers_[a.stage]) * (everywhere ? p_.replicas : 1);
    }
    if (work_ > std::max<std::int64_t>(1 << 20, 64 * instruction_count(p_)))
      return findings_.add(-1, -1, "has more absences on more edges than so few instructions need");
    for (const Absence& a : p_.absent)
      for (const int maker : makers_[a.stage])
        for (int replica = 0; replica < p_.replicas; ++replica)
          if (a.replica == Absence::kEveryReplica || a.replica == replica)
            count({maker, a.microbatch, replica});
  }

 private:
  /// What is absent from every replica comes first of its stage and microbatch, and alone.
  static bool repeats(const Absence& a, const Absence& before) {
    return before.replica == Absence::kEveryReplica && a.stage == before.stage &&
           a.microbatch == before.microbatch;
  }

  void count(const Absence& maker) {
    if (++missing_[maker] < readers_[maker.stage]) return;
    if (std::ranges::binary_search(p_.absent, maker)) return;
    if (std::ranges::binary_search(p_.absent, Absence{maker.stage, maker.microbatch})) return;
    findings_.add(
        -1, -1, "stage ", maker.stage, " takes part in microbatch ", maker.microbatch,
        p_.replicas > 1 ? cleave::detail::concat(" of replica ", maker.replica) : std::string(),
        ", but nobody that reads it does");
  }

  const Program& p_;
  Findings& findings_;
  std::vector<int> readers_;              // [stage] edges that bring a gradient
  std::vector<std::vector<int>> makers_;  // [stage] where they bring it to
  std::map<Absence, int> missing_;        // of one replica -> readers that are absent
  std::int64_t work_ = 0;
};

}  // namespace

void check_header(const Program& program, Findings& findings) {
  check_sizes(program, findings);
  if (findings.any()) return;
  check_placement(program, findings);
  if (findings.any()) return;
  check_stage_joints(program, findings);
  if (findings.any()) return;
  check_segment_reads(program, findings);
  if (findings.any()) return;
  check_gradient_kinds(program, findings);
  check_collecting(program, findings);
  Presence(program, findings).check();
}

}  // namespace cleave::schedule::checks
