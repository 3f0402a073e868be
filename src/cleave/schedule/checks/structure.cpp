#include <algorithm>
#include <optional>

#include "cleave/schedule/checks/checks.h"

namespace cleave::schedule::checks {
namespace {

bool within(std::int64_t value, std::int64_t bound) {
  return value >= 0 && value < bound;
}

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
}

// A device works for one replica only: its instructions do not say for which.
void check_placement(const Program& p, Findings& findings) {
  std::vector<int> replica_of(p.devices, -1);
  for (int stage = 0; stage < p.stages; ++stage) {
    const std::vector<int>& devices = p.placement[stage];
    if (static_cast<std::int64_t>(devices.size()) != p.replicas) {
      findings.add(-1, -1, "stage ", stage, " is placed on ", devices.size(),
                   " devices, one per replica would be ", p.replicas);
      continue;
    }
    for (int replica = 0; replica < p.replicas; ++replica) {
      const int device = devices[replica];
      if (!within(device, p.devices)) {
        findings.add(-1, -1, "stage ", stage, " is placed on device ", device, ", but there are ",
                     p.devices);
      } else if (replica_of[device] >= 0 && replica_of[device] != replica) {
        findings.add(device, -1, "holds stages of replicas ", replica_of[device], " and ", replica,
                     "; a device works for one");
      } else {
        replica_of[device] = replica;
      }
    }
  }
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
    if (!within(edge.from, p.stages) || !within(edge.to, p.stages) || edge.from == edge.to)
      findings.add(-1, -1, "edge ", i, " joins stages ", edge.from, " and ", edge.to,
                   ", not two of the ", p.stages);
    else if (edge.forward_bytes < 0 || edge.backward_bytes < 0)
      findings.add(-1, -1, "edge ", i, " has negative bytes");
  }
  for (std::size_t i = 0; i < p.ties.size(); ++i) {
    const Tie& tie = p.ties[i];
    if (!within(tie.first, p.stages) || !within(tie.second, p.stages) || tie.first == tie.second)
      findings.add(-1, -1, "tie ", i, " joins stages ", tie.first, " and ", tie.second,
                   ", not two of the ", p.stages);
  }
}

// What is wrong with one instruction by itself, as a sentence, or nothing.
class Operands {
 public:
  Operands(const Program& program, Level level) : p_(program), level_(level), topology_(program) {}

  std::optional<std::string> complaint(int device, const Instruction& i) const {
    if (i.op > Op::Step) return "is no known instruction";
    if (level_ == Level::Compute && !is_compute(i.op)) return "is not compute";
    if (level_ == Level::Forward && !serves_forward(i.op)) return "is not for a forward pass";
    if (is_message(i.op)) return message_complaint(device, i);
    if (i.op == Op::Tie) return tie_complaint(device, i);
    if (i.op == Op::Norm || i.op == Op::Step) return std::nullopt;
    return stage_complaint(device, i);
  }

 private:
  static bool serves_forward(Op op) {
    return op == Op::Forward || is_message(op) || op == Op::Gather || op == Op::Free;
  }

  bool holds(int device, int stage) const {
    const int replica = topology_.replica[device];
    return replica >= 0 && p_.placement[stage][replica] == device;
  }

  std::optional<std::string> stage_complaint(int device, const Instruction& i) const {
    using cleave::detail::concat;
    if (!within(i.stage, p_.stages)) return concat("names stage ", i.stage, " of ", p_.stages);
    if (!holds(device, i.stage)) return concat("stage ", i.stage, " is not on this device");
    if (i.segment < -1 || i.segment >= p_.segments[i.stage])
      return concat("names segment ", i.segment, " of ", p_.segments[i.stage]);
    if (is_compute(i.op)) return microbatch_complaint(i);
    return std::nullopt;
  }

  std::optional<std::string> microbatch_complaint(const Instruction& i) const {
    if (within(i.microbatch, p_.microbatches)) return std::nullopt;
    return cleave::detail::concat("names microbatch ", i.microbatch, " of ", p_.microbatches);
  }

  std::optional<std::string> message_complaint(int device, const Instruction& i) const {
    using cleave::detail::concat;
    const Op post = i.op == Op::Wait ? i.completes : i.op;
    if (post != Op::Send && post != Op::Receive) return "waits for what is no SEND and no RECV";
    if (!within(i.edge, std::ssize(p_.edges)))
      return concat("names edge ", i.edge, " of ", p_.edges.size());
    const Edge& edge = p_.edges[i.edge];
    if (i.direction == Direction::Backward && !edge.backward)
      return concat("nothing flows back along edge ", i.edge);
    const int stage = endpoint(edge, post, i.direction);
    if (!holds(device, stage))
      return concat("belongs to stage ", stage, ", which is not on this device");
    if (holds(device, edge.from) && holds(device, edge.to))
      return concat("both ends of edge ", i.edge, " are on this device");
    return microbatch_complaint(i);
  }

  std::optional<std::string> tie_complaint(int device, const Instruction& i) const {
    using cleave::detail::concat;
    if (!within(i.edge, std::ssize(p_.ties)))
      return concat("names tie ", i.edge, " of ", p_.ties.size());
    const Tie& tie = p_.ties[i.edge];
    if (holds(device, tie.first) || holds(device, tie.second)) return std::nullopt;
    return concat("stages ", tie.first, " and ", tie.second, " are not on this device");
  }

  const Program& p_;
  Level level_;
  Topology topology_;
};

// Every action needs an instruction, so a short program with a boastful header is incomplete; the
// tables are never made for it.
void check_counts(const Program& p, Level level, Findings& findings) {
  const std::int64_t count = instruction_count(p);
  const auto at_most = [&](std::int64_t a, std::int64_t b) { return b == 0 || a <= count / b; };
  const bool fits = at_most(p.stages, p.replicas) &&
                    at_most(static_cast<std::int64_t>(p.stages) * p.replicas, p.microbatches);
  if (!fits) {
    findings.add(-1, -1, "has ", count, " instructions; ", p.stages, " stages x ", p.replicas,
                 " replicas x ", p.microbatches, " microbatches need at least one each");
    return;
  }
  std::int64_t crossing = 0;
  for (const Edge& edge : p.edges)
    for (int replica = 0; replica < p.replicas; ++replica)
      crossing += p.placement[edge.from][replica] != p.placement[edge.to][replica];
  if (level != Level::Compute && !at_most(crossing, p.microbatches))
    findings.add(-1, -1, "has ", count, " instructions; ", crossing, " edges between devices x ",
                 p.microbatches, " microbatches need at least four each");
}

// Tables over segments are made for stages of which an instruction names one; that may be a single
// R, so completeness does not bound them.
void check_segments(const Program& p, Findings& findings) {
  std::int64_t named = 0;
  for (const int segments : named_segments(p)) named += segments;
  const std::int64_t most = std::max<std::int64_t>(1 << 20, 8 * instruction_count(p));
  if (named > most / p.replicas)
    findings.add(-1, -1, "tells ", named, " segments apart on ", p.replicas,
                 " replicas; more than ", most, " for so few instructions are not taken");
}

}  // namespace

void check_header(const Program& program, Findings& findings) {
  check_sizes(program, findings);
  if (findings.any()) return;
  check_placement(program, findings);
  check_stage_joints(program, findings);
}

void check_operands(const Program& program, Level level, Findings& findings) {
  const Operands operands(program, level);
  for (int device = 0; device < program.devices && !findings.full(); ++device) {
    const auto& list = program.lists[device];
    for (int at = 0; at < std::ssize(list); ++at)
      if (const auto complaint = operands.complaint(device, list[at]))
        findings.add(device, at, *complaint);
  }
  if (findings.any()) return;
  check_counts(program, level, findings);
  if (!findings.any()) check_segments(program, findings);
}

}  // namespace cleave::schedule::checks
