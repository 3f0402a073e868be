#include "cleave/schedule/checks/tables.h"

#include <algorithm>
#include <tuple>
#include <utility>

namespace cleave::schedule::checks {

std::vector<int> named_segments(const Program& program) {
  std::vector<int> segments(program.stages, 1);
  for (const auto& list : program.lists)
    for (const Instruction& i : list)
      if (i.stage >= 0 && i.segment >= 0) segments[i.stage] = program.segments[i.stage];
  return segments;
}

Tables::Tables(const Program& sane)
    : program(sane), topology(sane), segments(named_segments(sane)) {
  std::int64_t total = 0;
  for (const int count : segments) {
    first_segment_.push_back(total);
    total += count;
  }
  last_weight.assign(total * program.replicas, -1);
  reduced.assign(total * program.replicas, -1);
  summed.assign(total * program.replicas, -1);
  stepped.assign(total * program.replicas, -1);
  postings.resize(static_cast<std::size_t>(program.stages) * program.replicas);
  units.resize(unit_index(program.stages, {}));

  std::int32_t crossing = 0;
  for (const Edge& edge : program.edges)
    for (int replica = 0; replica < program.replicas; ++replica) {
      const bool local =
          program.placement[edge.from][replica] == program.placement[edge.to][replica];
      slot.push_back(local ? -1 : crossing++);
    }
}

std::int64_t Tables::unit_index(int stage, const OfReplica& of) const {
  return (static_cast<std::int64_t>(stage) * program.replicas + of.replica) * program.microbatches +
         of.microbatch;
}

Unit& Tables::unit(int stage, const OfReplica& of) {
  return units[unit_index(stage, of)];
}

const Unit& Tables::unit(int stage, const OfReplica& of) const {
  return units[unit_index(stage, of)];
}

std::int64_t Tables::segment_index(StageId stage, ReplicaId replica) const {
  return first_segment_[stage] * program.replicas +
         static_cast<std::int64_t>(replica) * segments[stage];
}

Message& Tables::message(int edge, Direction direction, const OfReplica& of) {
  return const_cast<Message&>(std::as_const(*this).message(edge, direction, of));
}

const Message& Tables::message(int edge, Direction direction, const OfReplica& of) const {
  const std::int64_t row = slot[static_cast<std::int64_t>(edge) * program.replicas + of.replica];
  return messages[(row * 2 + static_cast<int>(direction)) * program.microbatches + of.microbatch];
}

const StateMove* Tables::state_move(DeviceId device, StageId stage, SegmentId segment) const {
  const auto key = [](const StateMove& m) { return std::tuple(m.device, m.stage, m.segment); };
  const std::tuple<int, int, int> wanted(device, stage, segment);
  const auto found = std::ranges::lower_bound(state_moves, wanted, {}, key);
  return found != state_moves.end() && key(*found) == wanted ? &*found : nullptr;
}

Span Tables::reduction(StageId stage, ReplicaId replica, SegmentId segment) const {
  if (segment >= segments[stage]) return {};
  const std::int64_t index = segment_index(stage, replica) + std::max<int>(segment, 0);
  const std::int32_t at = reduced[index];
  const auto& list = program.lists[program.placement[stage][replica]];
  return at >= 0 && list[at].segment == segment ? Span{at, summed[index]} : Span{};
}

std::size_t Tables::completed_by(StageId stage, ReplicaId replica, std::int32_t wait) const {
  const auto& all = posted(stage, replica);
  const auto& list = program.lists[program.placement[stage][replica]];
  // Waited for in about the order of posting: the one it completes is the last of its name before.
  for (auto before = std::ranges::lower_bound(all, wait, {}, &Posting::post);
       before != all.begin();) {
    --before;
    if (before->op == list[wait].completes && before->segment == list[wait].segment)
      return static_cast<std::size_t>(before - all.begin());
  }
  return all.size();
}

int Tables::next_present(int stage, OfReplica of) const {
  while (of.microbatch < program.microbatches && !topology.present(stage, of)) ++of.microbatch;
  return of.microbatch;
}

bool Tables::takes_part(int stage) const {
  for (ReplicaId replica{0}; replica < program.replicas; ++replica)
    if (next_present(stage, {.replica = replica}) < program.microbatches) return true;
  return false;
}

const Move* Tables::move(std::int64_t unit, int segment) const {
  const auto key = [](const Move& m) { return std::pair(m.unit, m.segment); };
  const auto found = std::ranges::lower_bound(moves, std::pair(unit, segment), {}, key);
  return found != moves.end() && key(*found) == std::pair(unit, segment) ? &*found : nullptr;
}

std::uint64_t Tables::piece_key(std::int64_t unit, int segment, Op op) {
  return static_cast<std::uint64_t>(unit) << 16 | static_cast<std::uint64_t>(segment) << 4 |
         static_cast<std::uint64_t>(op);
}

std::int32_t Tables::piece_position(std::int64_t unit, int segment, Op op) const {
  const std::uint64_t key = piece_key(unit, segment, op);
  const auto found = std::ranges::lower_bound(pieces, key, {}, &SegmentPosition::key);
  return found != pieces.end() && found->key == key ? found->position : -1;
}

}  // namespace cleave::schedule::checks
