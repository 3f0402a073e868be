#include <algorithm>
#include <span>
#include <string_view>
#include <tuple>

#include "cleave/schedule/checks/buffer_use.h"
#include "cleave/schedule/checks/checks.h"

namespace cleave::schedule::checks {
namespace {

// Buffers that may serve each other's purpose have equal `what`; those of one `what` are told apart
// by `which`: replica and microbatch, or for gathered parameters replica and time.
struct Entry {
  std::uint64_t what = 0;
  std::uint64_t which = 0;
  std::int32_t index = 0;

  auto key() const { return std::tuple(what, which, index); }
};

// Stage ends have no edge, and come after every direction.
constexpr int kStageEnd = 2;

std::uint64_t what_of(BufferKind kind, int owner, int segment_or_direction) {
  return static_cast<std::uint64_t>(kind) << 48 | static_cast<std::uint64_t>(owner) << 16 |
         static_cast<std::uint64_t>(segment_or_direction + 1);
}

std::uint64_t which_of(ReplicaId replica, int microbatch_or_first) {
  return static_cast<std::uint64_t>(replica) << 32 |
         static_cast<std::uint32_t>(microbatch_or_first);
}

class Inventory {
 public:
  Inventory(const Tables& tables, Findings& findings)
      : t_(tables), p_(tables.program), findings_(findings) {
    entries_.reserve(p_.buffers.size());
    for (std::int32_t k = 0; k < std::ssize(p_.buffers); ++k)
      entries_.push_back(entry_of(p_.buffers[k], k));
    std::ranges::sort(entries_, {}, &Entry::key);
  }

  void check_unique() {
    for (std::size_t k = 1; k < entries_.size(); ++k) {
      const Buffer& b = p_.buffers[entries_[k].index];
      const Buffer& before = p_.buffers[entries_[k - 1].index];
      if (entries_[k - 1].what != entries_[k].what || before.device != b.device) continue;
      const bool same = is_one_of_several(b) ? before.last >= b.first
                                             : entries_[k - 1].which == entries_[k].which;
      if (same) findings_.add(b.device, b.first, "buffer ", text_of(b), " is there twice");
    }
  }

  // How large a stage's buffers are is not in the program, and none may mean no bytes. But what one
  // microbatch of one replica needs, all of them need.
  void check_alike() {
    for (std::size_t begin = 0; begin < entries_.size() && !findings_.full();) {
      std::size_t end = begin;
      while (end < entries_.size() && entries_[end].what == entries_[begin].what) ++end;
      const Buffer& b = p_.buffers[entries_[begin].index];
      const bool of_stage = is_kept(b) || is_stage_end(b) || is_static(b) || is_of_gradients(b) ||
                            is_state(b) || b.kind == BufferKind::Collected;
      if (of_stage && !is_scratch(b))
        check_alike(b, std::span(entries_).subspan(begin, end - begin));
      begin = end;
    }
  }

  void check_carried() {
    for (int edge = 0; edge < std::ssize(p_.edges) && !findings_.full(); ++edge) {
      const Edge& e = p_.edges[edge];
      if (e.forward_bytes > 0) check_edge(edge, Direction::Forward, e.forward_bytes);
      if (e.backward && e.backward_bytes > 0)
        check_edge(edge, Direction::Backward, e.backward_bytes);
    }
  }

  // Each time between GATHER and FREE needs one buffer around it, where the stage has any.
  void check_gathered() {
    std::vector<std::pair<std::uint64_t, std::int32_t>> open;  // sorted: (what, position of GATHER)
    for (int device = 0; device < p_.devices; ++device) {
      const auto& list = p_.lists[device];
      for (std::int32_t at = 0; at < std::ssize(list); ++at) {
        const Instruction& i = list[at];
        if (i.op != Op::Gather && i.op != Op::Free) continue;
        const std::uint64_t what = what_of(BufferKind::Gathered, i.stage, i.segment);
        const auto first = std::ranges::lower_bound(entries_, what, {}, &Entry::what);
        if (first == entries_.end() || first->what != what) continue;
        const auto place = std::ranges::lower_bound(open, std::pair(what, -1));
        if (i.op == Op::Gather) {
          open.insert(place, {what, at});
        } else {
          check_around(device, what, {place->second, at}, "what is gathered");
          open.erase(place);
        }
      }
    }
  }

  // Each time between a collective's post and its WAIT needs one on the host, where its stage has
  // any.
  void check_exchanged() {
    for (const int device : p_.through_host)
      for (const int stage : t_.topology.stages[device])
        for (const Posting& posted : t_.posted(StageId{stage}, t_.topology.replica[device])) {
          const std::uint64_t what = what_of(on_host_of(posted.op), stage, posted.segment);
          const auto first = std::ranges::lower_bound(entries_, what, {}, &Entry::what);
          if (first == entries_.end() || first->what != what) continue;
          check_around(device, what, {posted.post, posted.wait}, "what passes through the host");
        }
  }

 private:
  Entry entry_of(const Buffer& b, std::int32_t index) const {
    if (is_scratch(b)) return {what_of(b.kind, b.device, 0), 0, index};
    const OfReplica of = t_.topology.of_replica(b);
    const std::uint64_t which = which_of(of.replica, of.microbatch);
    if (is_carried(b))
      return {what_of(b.kind, b.edge, static_cast<int>(b.direction)), which, index};
    if (is_stage_end(b)) return {what_of(b.kind, b.stage, kStageEnd), which, index};
    const std::uint64_t what = what_of(b.kind, b.stage, b.segment);
    if (is_kept(b) || is_moved(b)) return {what, which, index};
    const int one_of = is_one_of_several(b) ? b.first : 0;
    return {what, which_of(t_.topology.replica[b.device], one_of), index};
  }

  void check_alike(const Buffer& like, std::span<const Entry> there) {
    bool sorts_there[3] = {};
    for (const Entry& entry : there)
      sorts_there[static_cast<int>(sort(p_.buffers[entry.index]))] = true;

    Buffer b = like;
    auto next = there.begin();
    const bool per_microbatch = is_kept(like) || is_stage_end(like);
    const int count = per_microbatch ? p_.microbatches : 1;
    for (ReplicaId replica{0}; replica < p_.replicas; ++replica)
      for (MicrobatchId microbatch{0}; microbatch < count; ++microbatch) {
        if (next != there.end() && next->which == which_of(replica, microbatch)) {
          ++next;
          continue;
        }
        const OfReplica of{.replica = replica, .microbatch = microbatch};
        b.device = p_.placement[like.stage][replica];
        b.microbatch = t_.topology.on_device(b.device, of);
        if (per_microbatch && !t_.topology.present(b.stage, of)) continue;
        if (!per_microbatch && replica != t_.topology.replica[b.device]) continue;
        const Sort wanted = sort(b);
        if (wanted != Sort::Exempt && sorts_there[static_cast<int>(wanted)])
          findings_.add(b.device, -1, "buffer ", text_of(b), " is missing");
      }
  }

  Sort sort(const Buffer& b) const {
    return is_kept(b) || is_of_gradients(b) ? sort_of(t_, b) : Sort::Plain;
  }

  const Buffer* find(BufferKind kind, int edge, Direction direction, std::uint64_t which) const {
    const Entry wanted{what_of(kind, edge, static_cast<int>(direction)), which, 0};
    const auto found = std::ranges::lower_bound(entries_, wanted.key(), {}, &Entry::key);
    const bool there =
        found != entries_.end() && found->what == wanted.what && found->which == wanted.which;
    return there ? &p_.buffers[found->index] : nullptr;
  }

  void check_edge(int edge, Direction direction, std::int64_t bytes) {
    for (ReplicaId replica{0}; replica < p_.replicas; ++replica)
      for (MicrobatchId microbatch{0}; microbatch < p_.microbatches; ++microbatch)
        for (const BufferKind kind : {BufferKind::Arriving, BufferKind::Leaving,
                                      BufferKind::ArrivingOnHost, BufferKind::LeavingOnHost}) {
          const OfReplica of{.replica = replica, .microbatch = microbatch};
          if (!t_.topology.carries(edge, direction, of)) break;
          if (kind != BufferKind::Arriving && !t_.crosses(edge, replica)) continue;
          const bool arriving = kind == BufferKind::Arriving || kind == BufferKind::ArrivingOnHost;
          const Op post = arriving ? Op::Receive : Op::Send;
          Buffer wanted{.kind = kind, .edge = edge, .direction = direction};
          wanted.device = p_.placement[endpoint(p_.edges[edge], post, direction)][replica];
          if (is_on_host(wanted) && !passes_through_host(p_, wanted.device)) continue;
          wanted.microbatch = t_.topology.on_device(wanted.device, of);
          const Buffer* there = find(kind, edge, direction, which_of(replica, microbatch));
          if (there == nullptr)
            findings_.add(wanted.device, -1, "buffer ", text_of(wanted), " is missing");
          else if (there->bytes < bytes)
            findings_.add(wanted.device, there->first, "buffer ", text_of(wanted), " has ",
                          there->bytes, " bytes, but its edge carries ", bytes);
        }
  }

  void check_around(int device, std::uint64_t what, Span used, std::string_view held) {
    const Entry wanted{what, which_of(t_.topology.replica[device], used.first), INT32_MAX};
    auto found = std::ranges::upper_bound(entries_, wanted.key(), {}, &Entry::key);
    if (found != entries_.begin() && (--found)->what == what) {
      const Buffer& b = p_.buffers[found->index];
      if (b.device == device && b.last >= used.last) return;
    }
    findings_.add(device, used.first, "no buffer holds ", held, " until instruction ", used.last);
  }

  const Tables& t_;
  const Program& p_;
  Findings& findings_;
  std::vector<Entry> entries_;
};

}  // namespace

void check_inventory(const Tables& tables, Findings& findings) {
  Inventory inventory(tables, findings);
  inventory.check_unique();
  if (findings.any()) return;
  inventory.check_alike();
  inventory.check_carried();
  inventory.check_gathered();
  inventory.check_exchanged();
}

}  // namespace cleave::schedule::checks
