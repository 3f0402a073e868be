#include <algorithm>
#include <map>
#include <tuple>

#include "cleave/base/disk_blocks.h"
#include "cleave/schedule/checks/buffer_use.h"
#include "cleave/schedule/checks/checks.h"
#include "cleave/schedule/effects.h"

namespace cleave::schedule::checks {
namespace {

// What moves, told apart as in Tables::moves; and the stage and microbatch of its unit.
struct Kept {
  int stage;
  OfReplica of;
  int segment;
};

class MoveChecks {
 public:
  MoveChecks(Tables& tables, Findings& findings) : t_(tables), findings_(findings) {}

  void collect() {
    std::map<std::pair<std::int64_t, std::int32_t>, Move> found;
    for (int device = 0; device < t_.program.devices; ++device) {
      const auto& list = t_.program.lists[device];
      for (std::int32_t at = 0; at < std::ssize(list); ++at) {
        const Instruction& i = list[at];
        if (!is_move(i) || is_state_move(i)) continue;
        const std::int64_t unit = t_.unit_index(i.stage, t_.topology.of_replica(device, i));
        Move& move = found[{unit, i.segment}];
        move.unit = unit;
        move.segment = i.segment;
        std::int32_t& position = position_of(move, i);
        if (position >= 0)
          findings_.add(device, at, "is there a second time; the first is instruction ", position);
        position = at;
      }
    }
    for (const auto& [key, move] : found) t_.moves.push_back(move);
  }

  void check(const Move& move) {
    const std::int64_t row = move.unit / t_.program.microbatches;
    const Kept kept{
        .stage = static_cast<int>(row / t_.program.replicas),
        .of = {.replica = ReplicaId{static_cast<int>(row % t_.program.replicas)},
               .microbatch = MicrobatchId{static_cast<int>(move.unit % t_.program.microbatches)}},
        .segment = move.segment};
    const int device = t_.program.placement[kept.stage][kept.of.replica];
    for (const auto& [position, op, completes] :
         {std::tuple(move.out, Op::Out, Op::Forward), std::tuple(move.out_wait, Op::Wait, Op::Out),
          std::tuple(move.in, Op::In, Op::Forward), std::tuple(move.in_wait, Op::Wait, Op::In)})
      if (position < 0) return missing(device, kept, op, completes);
    const auto after = [&](std::int32_t later, std::int32_t earlier) {
      if (later > earlier) return true;
      findings_.add(device, later, "comes before instruction ", earlier, " (",
                    to_string(t_.program.lists[device][earlier]), ")");
      return false;
    };
    if (!after(move.out_wait, move.out) || !after(move.in, move.out_wait) ||
        !after(move.in_wait, move.in))
      return;
    check_passes(device, move, kept);
  }

 private:
  static std::int32_t& position_of(Move& move, const Instruction& i) {
    if (subject(i) == Op::Out) return i.op == Op::Wait ? move.out_wait : move.out;
    return i.op == Op::Wait ? move.in_wait : move.in;
  }

  void missing(int device, const Kept& kept, Op op, Op completes) {
    findings_.add(device, -1,
                  to_string(Instruction{.op = op,
                                        .completes = completes,
                                        .stage = kept.stage,
                                        .segment = kept.segment,
                                        .microbatch = t_.topology.on_device(device, kept.of)}),
                  " is missing");
  }

  void check_passes(int device, const Move& move, const Kept& kept) {
    const Unit& unit = t_.units[move.unit];
    const auto& list = t_.program.lists[device];
    const std::int32_t named = t_.piece_position(move.unit, std::max(move.segment, 0), Op::Forward);
    const std::int32_t forward = move.segment >= 0                      ? named
                                 : list[unit.forward.first].segment < 0 ? unit.forward.first
                                                                        : -1;
    if (forward < 0)
      return findings_.add(device, move.out, "names what no F of stage ", kept.stage, " names");
    if (forward > move.out)
      return findings_.add(device, move.out, "is posted before F (instruction ", forward,
                           ") made what it moves");
    if (recomputes(unit, move, list))
      return findings_.add(device, move.out, "moves what R brings back anyway");
    const std::int32_t input_named =
        move.segment < 0 ? -1 : t_.piece_position(move.unit, move.segment, Op::BackwardInput);
    const std::int32_t input = input_named >= 0 ? input_named : unit.input.first;
    if (input < move.in_wait)
      findings_.add(device, input, "runs before what it reads has come back (instruction ",
                    move.in_wait, ")");
  }

  bool recomputes(const Unit& unit, const Move& move, const std::vector<Instruction>& list) const {
    if (unit.recompute.empty()) return false;
    return move.segment < 0 || list[unit.recompute.first].segment < 0 ||
           t_.piece_position(move.unit, move.segment, Op::Recompute) >= 0;
  }

  Tables& t_;
  Findings& findings_;
};

using MovedBuffers = std::map<std::tuple<std::int64_t, std::int32_t, BufferKind>, const Buffer*>;

MovedBuffers buffers_of_moves(const Tables& t) {
  MovedBuffers buffers;
  for (const Buffer& b : t.program.buffers) {
    const bool kept = b.kind == BufferKind::KeptForInput || b.kind == BufferKind::KeptForWeight;
    if (!kept && !is_moved(b)) continue;
    const std::int64_t unit = t.unit_index(b.stage, t.topology.of_replica(b));
    if (t.move(unit, b.segment) != nullptr) buffers[{unit, b.segment, b.kind}] = &b;
  }
  return buffers;
}

}  // namespace

void check_moves(Tables& tables, Findings& findings) {
  if (!tables.moves_anything()) return;
  MoveChecks checks(tables, findings);
  checks.collect();
  for (std::size_t k = 0; k < tables.moves.size() && !findings.full(); ++k)
    checks.check(tables.moves[k]);
}

void check_moved_buffers(const Tables& tables, Findings& findings) {
  if (tables.moves.empty()) return;
  const MovedBuffers buffers = buffers_of_moves(tables);
  for (const Move& move : tables.moves) {
    if (findings.full()) return;
    const auto find = [&](BufferKind kind) {
      const auto found = buffers.find({move.unit, move.segment, kind});
      return found == buffers.end() ? nullptr : found->second;
    };
    const std::int64_t row = move.unit / tables.program.microbatches;
    const int device =
        tables.program.placement[row / tables.program.replicas][row % tables.program.replicas];
    std::int64_t moved = 0;
    for (const auto& [kept, returned] :
         {std::pair(BufferKind::KeptForInput, BufferKind::ReturnedForInput),
          std::pair(BufferKind::KeptForWeight, BufferKind::ReturnedForWeight)}) {
      const Buffer* before = find(kept);
      const Buffer* after = find(returned);
      if (before != nullptr) moved += disk_blocks(before->bytes);
      const bool same = (before == nullptr) == (after == nullptr) &&
                        (before == nullptr || before->bytes == after->bytes);
      if (!same)
        findings.add(device, move.in, "brings back other bytes than instruction ", move.out,
                     " took out");
    }
    const Buffer* outside = find(BufferKind::Outside);
    if (moved > (outside == nullptr ? 0 : outside->bytes))
      findings.add(device, move.out, "has no room outside for ", moved, " bytes");
  }
}

}  // namespace cleave::schedule::checks
