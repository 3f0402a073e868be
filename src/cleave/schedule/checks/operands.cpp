#include <algorithm>
#include <optional>

#include "cleave/schedule/checks/checks.h"
#include "cleave/schedule/effects.h"
#include "cleave/schedule/text_words.h"

namespace cleave::schedule::checks {
namespace {

// What is wrong with one instruction by itself, as a sentence, or nothing.
class Operands {
 public:
  Operands(const Program& program, Level level) : p_(program), level_(level), topology_(program) {}

  std::optional<std::string> complaint(DeviceId device, const Instruction& i) const {
    const Op op = subject(i);
    if (static_cast<int>(i.op) >= kOps || static_cast<int>(op) >= kOps)
      return "is no known instruction";
    if (i.op == Op::Wait && !effects(op).posts) return "waits for what nothing posts";
    if (level_ == Level::Compute && !is_compute(i.op)) return "is not compute";
    if (level_ == Level::Forward && !serves_forward(op) && !is_message_move(i))
      return "is not for a forward pass";
    if (is_message_move(i)) return message_complaint(device, i);
    if (i.op == Op::Wait && effects(op).operand == Operand::Kept && i.edge >= 0)
      return "waits for a move of a message, which the WAIT of the message completes";
    switch (effects(op).operand) {
      case Operand::Message:
        return message_complaint(device, i);
      case Operand::Tie:
        return tie_complaint(device, i);
      case Operand::Nothing:
        return std::nullopt;
      case Operand::Update:
        return i.stage < 0 ? std::nullopt : stage_complaint(device, i);
      default:
        return stage_complaint(device, i);
    }
  }

 private:
  static bool serves_forward(Op op) {
    return op == Op::Forward || effects(op).operand == Operand::Message || op == Op::Gather ||
           op == Op::Free || op == Op::Collect;
  }

  bool holds(DeviceId device, StageId stage) const {
    const int replica = topology_.replica[device];
    return replica >= 0 && p_.placement[stage][replica] == device;
  }

  std::optional<std::string> stage_complaint(DeviceId device, const Instruction& i) const {
    using cleave::detail::concat;
    if (!is_within(i.stage, p_.stages)) return concat("names stage ", i.stage, " of ", p_.stages);
    if (!holds(device, StageId{i.stage}))
      return concat("stage ", i.stage, " is not on this device");
    if (i.segment < -1 || i.segment >= p_.segments[i.stage])
      return concat("names segment ", i.segment, " of ", p_.segments[i.stage]);
    if (i.op == Op::Step || is_state_move(i)) return update_complaint(i);
    if (!is_compute(i.op) && !is_move(i)) return collective_complaint(i);
    if (const auto complaint = microbatch_complaint(device, i)) return complaint;
    if (!topology_.present(i.stage, topology_.of_replica(device, i)))
      return concat("stage ", i.stage, " is absent from microbatch ", i.microbatch);
    if (level_ == Level::Forward || wanted(subject(i), gradients_of(p_, i.stage)))
      return std::nullopt;
    return concat("is not wanted: the gradient kind of stage ", i.stage, " is ",
                  name_of(gradients_of(p_, i.stage)));
  }

  std::optional<std::string> update_complaint(const Instruction& i) const {
    if (makes_weight_gradient(gradients_of(p_, i.stage))) return std::nullopt;
    return cleave::detail::concat("stage ", i.stage, " makes no weight gradient");
  }

  static bool wanted(Op op, GradientKind kind) {
    const bool input = makes_input_gradient(kind);
    const bool weight = makes_weight_gradient(kind);
    if (!is_compute(op) || op == Op::Recompute) return input || weight;
    return (!writes(op, Thing::InputGradient) || input) &&
           (!writes(op, Thing::Gradients) || weight);
  }

  std::optional<std::string> collective_complaint(const Instruction& i) const {
    using cleave::detail::concat;
    const Op op = subject(i);
    const Sharing sharing = sharing_of(p_, i.stage);
    const bool learns = makes_weight_gradient(gradients_of(p_, i.stage));
    if ((op == Op::Gather || op == Op::Free) && sharing != Sharing::Values)
      return concat("every replica has all parameters of stage ", i.stage);
    if (op == Op::Collect) return collect_complaint(i);
    if (op == Op::Reduce && !learns) return concat("stage ", i.stage, " makes no weight gradient");
    if (op != Op::Refresh) return std::nullopt;
    if (!learns || (sharing != Sharing::State && sharing != Sharing::Gradients))
      return concat("every replica has updated all parameters of stage ", i.stage);
    if (i.segment >= 0) return "names a segment; stages are refreshed as a whole";
    return std::nullopt;
  }

  std::optional<std::string> collect_complaint(const Instruction& i) const {
    using cleave::detail::concat;
    if (!collects(p_, i.stage))
      return concat("stage ", i.stage, " runs microbatch by microbatch and collects nothing");
    if (i.segment == collecting_segment(p_, i.stage)) return std::nullopt;
    return concat("only the last segment of stage ", i.stage, " runs once per step");
  }

  std::optional<std::string> microbatch_complaint(DeviceId device, const Instruction& i) const {
    const int microbatches = topology_.microbatches(device);
    if (is_within(i.microbatch, microbatches)) return std::nullopt;
    return cleave::detail::concat("names microbatch ", i.microbatch, " of ", microbatches);
  }

  std::optional<std::string> message_complaint(DeviceId device, const Instruction& i) const {
    using cleave::detail::concat;
    const Op post = i.op == Op::Out ? Op::Send : i.op == Op::In ? Op::Receive : subject(i);
    if (!is_within(i.edge, std::ssize(p_.edges)))
      return concat("names edge ", i.edge, " of ", p_.edges.size());
    const Edge& edge = p_.edges[i.edge];
    if (i.direction == Direction::Backward && !edge.backward)
      return concat("nothing flows back along edge ", i.edge);
    const int stage = endpoint(edge, post, i.direction);
    if (!holds(device, StageId{stage}))
      return concat("belongs to stage ", stage, ", which is not on this device");
    if (holds(device, StageId{edge.from}) && holds(device, StageId{edge.to}))
      return concat("both ends of edge ", i.edge, " are on this device");
    if (const auto complaint = microbatch_complaint(device, i)) return complaint;
    if (topology_.carries(i.edge, i.direction, topology_.of_replica(device, i)))
      return std::nullopt;
    return concat("an end of edge ", i.edge, " is absent from microbatch ", i.microbatch);
  }

  std::optional<std::string> tie_complaint(DeviceId device, const Instruction& i) const {
    using cleave::detail::concat;
    if (!is_within(i.edge, std::ssize(p_.ties)))
      return concat("names tie ", i.edge, " of ", p_.ties.size());
    const Tie& tie = p_.ties[i.edge];
    if (holds(device, StageId{tie.first}) || holds(device, StageId{tie.second}))
      return std::nullopt;
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
  std::int64_t absences = 0;
  for (const Absence& a : p.absent)
    absences += a.replica == Absence::kEveryReplica ? p.replicas : 1;
  const auto at_most = [&](std::int64_t a, std::int64_t b) {
    return b == 0 || a <= (count + kMostEdgesPerStage * absences) / b;
  };
  const bool fits = at_most(p.stages, p.replicas) &&
                    at_most(static_cast<std::int64_t>(p.stages) * p.replicas, p.microbatches);
  if (!fits) {
    findings.add(-1, -1, "has ", count, " instructions; ", p.stages, " stages x ", p.replicas,
                 " replicas x ", p.microbatches, " microbatches need at least one each");
    return;
  }
  std::int64_t crossing = 0;
  for (const Edge& edge : p.edges)
    for (ReplicaId replica{0}; replica < p.replicas; ++replica)
      crossing += p.placement[edge.from][replica] != p.placement[edge.to][replica];
  if (level != Level::Compute && !at_most(crossing, p.microbatches))
    findings.add(-1, -1, "has ", count, " instructions; ", crossing, " edges between devices x ",
                 p.microbatches, " microbatches need at least four each");
}

}  // namespace

void check_operands(const Program& program, Level level, Findings& findings) {
  const Operands operands(program, level);
  for (DeviceId device{0}; device < program.devices && !findings.full(); ++device) {
    const auto& list = program.lists[device];
    for (int at = 0; at < std::ssize(list); ++at)
      if (const auto complaint = operands.complaint(device, list[at]))
        findings.add(device, at, *complaint);
  }
  if (!findings.any()) check_counts(program, level, findings);
}

// Tables over segments are made for stages of which an instruction names one; that may be a single
// R, so completeness does not bound them.
void check_segments(const Program& program, const Mentions& mentions, Findings& findings) {
  std::int64_t named = 0;
  for (const int segments : mentions.segments) named += segments;
  const std::int64_t most = std::max<std::int64_t>(1 << 20, 8 * instruction_count(program));
  if (named > most / program.replicas)
    findings.add(-1, -1, "tells ", named, " segments apart on ", program.replicas,
                 " replicas; more than ", most, " for so few instructions are not taken");
}

}  // namespace cleave::schedule::checks
