#include "cleave/schedule/checks/tables.h"

#include <algorithm>
#include <tuple>
#include <utility>

#include "cleave/schedule/effects.h"

namespace cleave::schedule::checks {

Mentions::Mentions(const Program& sane) : segments(sane.stages, 1) {
  for (const auto& list : sane.lists)
    for (const Instruction& i : list) {
      ops.set(static_cast<std::size_t>(subject(i)));
      if (i.stage >= 0 && i.segment >= 0) segments[i.stage] = sane.segments[i.stage];
    }
}

Tables::Tables(const Program& sane, Mentions mentions)
    : program(sane),
      topology(sane),
      reads(sane),
      segments(std::move(mentions.segments)),
      ops(mentions.ops) {
  std::int64_t total = 0;
  for (const int count : segments) {
    first_segment_.push_back(total);
    total += count;
  }
  first_weight.assign(total * program.replicas, -1);
  last_weight.assign(total * program.replicas, -1);
  weights.resize(static_cast<std::size_t>(program.stages) * program.replicas);
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

std::int64_t Tables::segment_index(StageId stage, ReplicaId replica) const {
  return first_segment_[stage] * program.replicas +
         static_cast<std::int64_t>(replica) * segments[stage];
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

Span Tables::weights_of(StageId stage, ReplicaId replica, SegmentId segment) const {
  if (segment < 0 || segment >= segments[stage])
    return weights[static_cast<std::size_t>(stage) * program.replicas + replica];
  const std::int64_t index = segment_index(stage, replica) + segment;
  return {first_weight[index], last_weight[index]};
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
