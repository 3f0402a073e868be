#include "cleave/schedule/leave_out.h"

#include <algorithm>
#include <set>

#include "cleave/base/check.h"
#include "cleave/schedule/effects.h"

// No deadlock is added: what waits for what in the shorter lists is part of what waits for what in
// the whole ones, since a message goes with both of its ends and a collective with all of its
// members. Two buffers that never lived at the same time do not begin to: each lives from the first
// to the last instruction that is left of its time.

namespace cleave::schedule {
namespace {

/// Ascending, each said once: of every replica where all of them are.
std::vector<Absence> united(const Program& whole, std::span<const Absence> more) {
  std::set<Absence> single;
  for (const std::span<const Absence> absences : {std::span(whole.absent), more})
    for (const Absence& a : absences)
      for (int r = 0; r < whole.replicas; ++r)
        if (a.replica == Absence::kEveryReplica || a.replica == r)
          single.insert({a.stage, a.microbatch, r});
  std::vector<Absence> absent;
  for (auto at = single.begin(); at != single.end();) {
    const auto end = single.upper_bound({at->stage, at->microbatch, whole.replicas});
    if (std::distance(at, end) == whole.replicas)
      absent.push_back({at->stage, at->microbatch});
    else
      absent.insert(absent.end(), at, end);
    at = end;
  }
  return absent;
}

bool is_gathering(const Instruction& i) {
  return subject(i) == Op::Gather || i.op == Op::Free;
}

class LeavingOut {
 public:
  LeavingOut(const Program& whole, Program& part)
      : whole_(whole), part_(part), topology_(part), kept_(whole.devices) {}

  void run() {
    for (int d = 0; d < whole_.devices; ++d) {
      computes_.emplace_back();
      for (const Instruction& i : whole_.lists[d]) {
        if (is_compute(i.op)) computes_.back().push_back(kept_[d].size());
        kept_[d].push_back(takes_part(d, i));
      }
    }
    for (int d = 0; d < whole_.devices; ++d) leave_out_gathers(d);
    part_.buffers.clear();
    for (int d = 0; d < whole_.devices; ++d) shorten(d);
    for (const Buffer& buffer : whole_.buffers) keep(buffer);
  }

 private:
  bool takes_part(int device, const Instruction& i) const {
    const OfReplica of = topology_.of_replica(device, i);
    const bool of_microbatch = is_compute(i.op) || (is_move(i) && i.microbatch >= 0);
    if (of_microbatch) return topology_.present(i.stage, of);
    if (is_message(i) || is_message_move(i)) return topology_.carries(i.edge, i.direction, of);
    return true;
  }

  /// Whether some device of the stage runs what is the n-th compute instruction in all their lists.
  bool anybody_runs(const Instruction& i, std::size_t n) const {
    return std::ranges::any_of(holders_of(whole_, i.stage), [&](int peer) {
      const std::vector<std::size_t>& computes = computes_[peer];
      CLEAVE_CHECK(n < computes.size() && whole_.lists[peer][computes[n]] == i, to_string(i),
                   " is not at the same place on all replicas");
      return kept_[peer][computes[n]] != 0;
    });
  }

  /// From each GATHER to its FREE: is it of use to anybody?
  void leave_out_gathers(int device) {
    const auto& list = whole_.lists[device];
    std::size_t before = 0;  // compute instructions
    for (std::size_t begin = 0; begin < list.size(); ++begin) {
      before += is_compute(list[begin].op);
      if (list[begin].op != Op::Gather) continue;
      const Instruction& gather = list[begin];
      std::vector<std::size_t> own = {begin};
      bool used = false;
      std::size_t number = before;
      for (std::size_t at = begin + 1; at < list.size(); ++at) {
        const Instruction& i = list[at];
        const std::size_t n = number;
        number += is_compute(i.op);
        if (i.stage != gather.stage) continue;
        if (is_compute(i.op) && (gather.segment < 0 || i.segment == gather.segment))
          used = used || (reads(topology_.acts_as(i), Thing::Values) && anybody_runs(i, n));
        if (i.segment != gather.segment || !is_gathering(i)) continue;
        own.push_back(at);
        if (i.op == Op::Free) break;
      }
      for (const std::size_t at : own) kept_[device][at] = used;
    }
  }

  /// The list, and where each of its positions is, or the next one that is left.
  void shorten(int device) {
    auto& list = part_.lists[device];
    list.clear();
    positions_.emplace_back();
    for (std::size_t at = 0; at < kept_[device].size(); ++at) {
      positions_.back().push_back(static_cast<std::int32_t>(list.size()));
      if (kept_[device][at]) list.push_back(whole_.lists[device][at]);
    }
  }

  bool has_use(const Buffer& buffer) const {
    const OfReplica of = topology_.of_replica(buffer);
    if (buffer.kind == BufferKind::Gathered || is_exchange_on_host(buffer))
      return kept_[buffer.device][buffer.first] != 0;
    if (buffer.microbatch < 0) return true;
    if (buffer.edge >= 0) return topology_.carries(buffer.edge, buffer.direction, of);
    return topology_.present(buffer.stage, of);
  }

  void keep(Buffer buffer) {
    if (!has_use(buffer)) return;
    const auto& positions = positions_[buffer.device];
    const auto& kept = kept_[buffer.device];
    std::size_t last = buffer.last;
    while (last > 0 && last < kept.size() && !kept[last]) --last;
    buffer.first = positions.empty() ? 0 : positions[buffer.first];
    buffer.last = positions.empty() ? 0 : positions[last];
    part_.buffers.push_back(buffer);
  }

  const Program& whole_;
  Program& part_;
  Topology topology_;
  std::vector<std::vector<char>> kept_;               ///< [device][position] it is left
  std::vector<std::vector<std::size_t>> computes_;    ///< [device] positions of compute
  std::vector<std::vector<std::int32_t>> positions_;  ///< [device][position] among what is left
};

}  // namespace

Program leave_out(const Program& whole, std::span<const Absence> absences) {
  Program part = whole;
  part.absent = united(whole, absences);
  if (part.absent == whole.absent) return part;
  LeavingOut(whole, part).run();
  return part;
}

}  // namespace cleave::schedule
