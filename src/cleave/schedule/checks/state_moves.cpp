#include <algorithm>
#include <map>
#include <tuple>

#include "cleave/schedule/checks/checks.h"
#include "cleave/schedule/effects.h"

namespace cleave::schedule::checks {
namespace {

std::int32_t& state_position(StateMove& move, const Instruction& i) {
  if (subject(i) == Op::In) return i.op == Op::Wait ? move.in_wait : move.in;
  return i.op == Op::Wait ? move.out_wait : move.out;
}

void collect_state_moves(Tables& t, Findings& findings) {
  std::map<std::tuple<int, int, int>, StateMove> found;
  for (int device = 0; device < t.program.devices; ++device) {
    const auto& list = t.program.lists[device];
    for (std::int32_t at = 0; at < std::ssize(list); ++at) {
      const Instruction& i = list[at];
      if (!is_state_move(i)) continue;
      StateMove& move = found[{device, i.stage, i.segment}];
      move.device = device;
      move.stage = i.stage;
      move.segment = i.segment;
      std::int32_t& position = state_position(move, i);
      if (position >= 0)
        findings.add(device, at, "is there a second time; the first is instruction ", position);
      position = at;
    }
  }
  for (const auto& [key, move] : found) t.state_moves.push_back(move);
}

bool is_in_order(const Tables& t, const StateMove& move, Findings& findings) {
  const auto& list = t.program.lists[move.device];
  std::int32_t before = -1;
  for (const auto& [position, op, completes] :
       {std::tuple(move.in, Op::In, Op::Forward), std::tuple(move.in_wait, Op::Wait, Op::In),
        std::tuple(move.out, Op::Out, Op::Forward), std::tuple(move.out_wait, Op::Wait, Op::Out)}) {
    if (position < 0) {
      const Instruction missing{
          .op = op, .completes = completes, .stage = move.stage, .segment = move.segment};
      findings.add(move.device, -1, to_string(missing), " is missing");
      return false;
    }
    if (position < before) {
      findings.add(move.device, position, "comes before instruction ", before, " (",
                   to_string(list[before]), ")");
      return false;
    }
    before = position;
  }
  return true;
}

// The update of what moves lies between its coming and its leaving; no two moves bring the same.
void check_state_move(const Tables& t, const StateMove& move, Findings& findings) {
  if (!is_in_order(t, move, findings)) return;
  if (move.segment >= 0 &&
      t.state_move(DeviceId{move.device}, StageId{move.stage}, SegmentId{-1}) != nullptr)
    return findings.add(move.device, move.in, "brings in what the move of the whole stage brings");
  const std::int64_t base = t.segment_index(StageId{move.stage}, t.topology.replica[move.device]);
  const int first = std::max(move.segment, 0);
  const int last = move.segment < 0 ? t.segments[move.stage] - 1 : move.segment;
  for (int segment = first; segment <= last; ++segment) {
    const std::int32_t step = t.stepped[base + segment];
    if (step < 0) return findings.add(move.device, move.in, "brings in what no STEP updates");
    if (step < move.in_wait)
      return findings.add(move.device, step, "updates state before it has come (instruction ",
                          move.in_wait, ")");
    if (step > move.out)
      return findings.add(move.device, step, "updates state after it has left (instruction ",
                          move.out, ")");
  }
}

}  // namespace

void check_state_moves(Tables& tables, Findings& findings) {
  if (!tables.moves_anything()) return;
  collect_state_moves(tables, findings);
  for (const StateMove& move : tables.state_moves) {
    if (findings.full()) return;
    check_state_move(tables, move, findings);
  }
}

void check_state_buffers(const Tables& tables, Findings& findings) {
  using Key = std::tuple<int, int, int>;
  std::map<Key, std::pair<const Buffer*, const Buffer*>> buffers;  // fetched, stored
  for (const Buffer& b : tables.program.buffers) {
    if (b.kind == BufferKind::FetchedState) buffers[{b.device, b.stage, b.segment}].first = &b;
    if (b.kind == BufferKind::StoredState) buffers[{b.device, b.stage, b.segment}].second = &b;
  }
  for (const auto& [key, pair] : buffers) {
    if (findings.full()) return;
    const auto& [device, stage, segment] = key;
    const auto& [fetched, stored] = pair;
    if (fetched != nullptr && stored != nullptr && fetched->bytes >= stored->bytes) continue;
    findings.add(device,
                 tables.state_move(DeviceId{device}, StageId{stage}, SegmentId{segment})->in,
                 "has no room for the bytes that are stored");
  }
}

}  // namespace cleave::schedule::checks
