#include <algorithm>
#include <array>
#include <span>

#include "cleave/schedule/checks/checks.h"

namespace cleave::schedule::checks {
namespace {

bool is_static(BufferKind kind) {
  return kind <= BufferKind::Optimizer || kind == BufferKind::Scratch;
}

bool is_kept(BufferKind kind) {
  return kind >= BufferKind::KeptForInput && kind <= BufferKind::InputKept;
}

bool is_message(BufferKind kind) {
  return kind == BufferKind::Arriving || kind == BufferKind::Leaving;
}

std::string text_of(const Buffer& b) {
  constexpr std::array<const char*, 10> kNames = {
      "Weights",   "Gradients", "Optimizer", "KeptForInput", "KeptForWeight",
      "InputKept", "Arriving",  "Leaving",   "Gathered",     "Scratch"};
  using cleave::detail::concat;
  std::string text = kNames.at(static_cast<std::size_t>(b.kind));
  if (is_message(b.kind))
    return concat(text, " of edge ", b.edge, b.direction == Direction::Forward ? '>' : '<',
                  b.microbatch);
  if (b.kind == BufferKind::Scratch) return text;
  text += concat(" of stage ", b.stage);
  if (b.segment >= 0) text += concat(".", b.segment);
  if (is_kept(b.kind)) text += concat(", microbatch ", b.microbatch);
  return text;
}

// Buffers that may serve each other's purpose have equal `what`; those of one `what` are told apart
// by `which`: replica and microbatch, or for gathered parameters replica and time.
struct Entry {
  std::uint64_t what = 0;
  std::uint64_t which = 0;
  std::int32_t index = 0;

  friend auto operator<=>(const Entry&, const Entry&) = default;
};

std::uint64_t what_of(BufferKind kind, int owner, int segment_or_direction) {
  return static_cast<std::uint64_t>(kind) << 48 | static_cast<std::uint64_t>(owner) << 16 |
         static_cast<std::uint64_t>(segment_or_direction + 1);
}

std::uint64_t which_of(int replica, int microbatch) {
  return static_cast<std::uint64_t>(replica) << 32 | static_cast<std::uint32_t>(microbatch);
}

class Lifetimes {
 public:
  Lifetimes(const Tables& tables, Findings& findings)
      : t_(tables), p_(tables.program), findings_(findings) {}

  void check() {
    for (std::int32_t k = 0; k < std::ssize(p_.buffers); ++k) {
      const Buffer& b = p_.buffers[k];
      if (!owned(b)) {
        complain(b, "belongs to nothing on this device");
      } else {
        entries_.push_back(entry_of(b, k));
        check_lifetime(b);
      }
      if (findings_.full()) return;
    }
    if (findings_.any()) return;
    std::ranges::sort(entries_);
    check_unique();
    check_replicas();
    check_messages();
    check_gathered();
  }

 private:
  template <class... Parts>
  void complain(const Buffer& b, const Parts&... parts) {
    const bool on_device = b.device >= 0 && b.device < p_.devices;
    const bool in_list = on_device && b.first >= 0 && b.first < std::ssize(p_.lists[b.device]);
    findings_.add(b.device, in_list ? b.first : -1, "buffer ", text_of(b), " ", parts...);
  }

  bool holds(int device, int stage) const {
    const int replica = t_.topology.replica[device];
    return stage >= 0 && stage < p_.stages && replica >= 0 &&
           p_.placement[stage][replica] == device;
  }

  bool owned(const Buffer& b) const {
    if (b.device < 0 || b.device >= p_.devices || b.kind > BufferKind::Scratch) return false;
    if (b.kind == BufferKind::Scratch) return true;
    const bool per_microbatch = is_kept(b.kind) || is_message(b.kind);
    if (per_microbatch && (b.microbatch < 0 || b.microbatch >= p_.microbatches)) return false;
    if (!is_message(b.kind))
      return holds(b.device, b.stage) && b.segment >= -1 && b.segment < p_.segments[b.stage];
    if (b.edge < 0 || b.edge >= std::ssize(p_.edges)) return false;
    const Edge& edge = p_.edges[b.edge];
    if (b.direction == Direction::Backward && !edge.backward) return false;
    const bool arriving = b.kind == BufferKind::Arriving;
    if (!holds(b.device, endpoint(edge, arriving ? Op::Receive : Op::Send, b.direction)))
      return false;
    return arriving || t_.crosses(b.edge, t_.topology.replica[b.device]);
  }

  Entry entry_of(const Buffer& b, std::int32_t index) const {
    const int replica = t_.topology.replica[b.device];
    if (b.kind == BufferKind::Scratch) return {what_of(b.kind, b.device, 0), 0, index};
    if (is_message(b.kind))
      return {what_of(b.kind, b.edge, static_cast<int>(b.direction)),
              which_of(replica, b.microbatch), index};
    const int one_of = is_kept(b.kind)                  ? b.microbatch
                       : b.kind == BufferKind::Gathered ? b.first
                                                        : 0;
    return {what_of(b.kind, b.stage, b.segment), which_of(replica, one_of), index};
  }

  void check_lifetime(const Buffer& b) {
    const std::int32_t end =
        std::max<std::int32_t>(static_cast<std::int32_t>(std::ssize(p_.lists[b.device])) - 1, 0);
    if (b.first < 0 || b.first > b.last || b.last > end)
      return complain(b, "lives from ", b.first, " to ", b.last, ", outside its device's list");
    const Span used = use_of(b, end);
    if (!used.empty() && (b.first > used.first || b.last < used.last))
      complain(b, "lives from ", b.first, " to ", b.last, ", but is used from ", used.first, " to ",
               used.last);
  }

  // First and last instruction that read or write the buffer. A message that is made or read by
  // some segment of a stage counts as made or read by all of them: an edge does not say by which.
  Span use_of(const Buffer& b, std::int32_t end) const {
    if (is_static(b.kind)) return {0, end};
    if (is_kept(b.kind)) return use_of_kept(b);
    if (b.kind == BufferKind::Gathered) return {};
    const int replica = t_.topology.replica[b.device];
    const Edge& edge = p_.edges[b.edge];
    const bool forward = b.direction == Direction::Forward;
    const Unit& from = t_.unit(endpoint(edge, Op::Send, b.direction), replica, b.microbatch);
    const Unit& to = t_.unit(endpoint(edge, Op::Receive, b.direction), replica, b.microbatch);
    const std::int32_t made = forward ? from.forward.first : from.input.first;
    const std::int32_t read =
        forward ? std::max(to.forward.last, to.recompute.last) : to.input.last;
    if (!t_.crosses(b.edge, replica)) return {made, read};
    const Message& m = t_.message(b.edge, replica, b.direction, b.microbatch);
    return b.kind == BufferKind::Arriving ? Span{m.receive, read} : Span{made, m.send_wait};
  }

  Span use_of_kept(const Buffer& b) const {
    const std::int64_t index = t_.unit_index(b.stage, t_.topology.replica[b.device], b.microbatch);
    const Unit& unit = t_.units[index];
    const auto position = [&](Op op, std::int32_t otherwise) {
      const std::int32_t named = b.segment < 0 ? -1 : t_.piece_position(index, b.segment, op);
      return named >= 0 ? named : otherwise;
    };
    // What a recompute brings back need not be kept before.
    const bool all_again = unit.recompute_done == t_.segments[b.stage];
    std::int32_t made = position(Op::Recompute, all_again ? unit.recompute.first : -1);
    if (made < 0) made = position(Op::Forward, unit.forward.first);
    const std::int32_t input_end = position(Op::BackwardInput, unit.input.last);
    if (b.kind == BufferKind::KeptForInput) return {made, input_end};
    const std::int32_t weight_end = position(Op::BackwardWeight, unit.weight.last);
    if (b.kind == BufferKind::KeptForWeight) return {made, weight_end};
    return {position(Op::BackwardInput, unit.input.first), weight_end};
  }

  void check_unique() {
    for (std::size_t k = 1; k < entries_.size(); ++k) {
      const Buffer& b = p_.buffers[entries_[k].index];
      const Buffer& before = p_.buffers[entries_[k - 1].index];
      if (entries_[k - 1].what != entries_[k].what || before.device != b.device) continue;
      const bool same = b.kind == BufferKind::Gathered ? before.last >= b.first
                                                       : entries_[k - 1].which == entries_[k].which;
      if (same) complain(b, "is there twice");
    }
  }

  // How large a stage's buffers are is not in the program, and none may mean no bytes. But what one
  // microbatch of one replica needs, all of them need.
  void check_replicas() {
    for (std::size_t begin = 0; begin < entries_.size();) {
      std::size_t end = begin;
      while (end < entries_.size() && entries_[end].what == entries_[begin].what) ++end;
      const Buffer& b = p_.buffers[entries_[begin].index];
      if (is_kept(b.kind) || (is_static(b.kind) && b.kind != BufferKind::Scratch))
        check_all_there(b, std::span(entries_).subspan(begin, end - begin));
      begin = end;
    }
  }

  void check_all_there(const Buffer& b, std::span<const Entry> there) {
    auto next = there.begin();
    const int count = is_kept(b.kind) ? p_.microbatches : 1;
    for (int replica = 0; replica < p_.replicas; ++replica)
      for (int microbatch = 0; microbatch < count; ++microbatch) {
        if (next != there.end() && next->which == which_of(replica, microbatch)) {
          ++next;
          continue;
        }
        if (b.kind == BufferKind::InputKept &&
            !t_.unit(b.stage, replica, microbatch).input_and_weight_apart)
          continue;  // B needs no place between its I and its W
        Buffer missing = b;
        missing.microbatch = microbatch;
        findings_.add(p_.placement[b.stage][replica], -1, "buffer ", text_of(missing),
                      " is missing");
      }
  }

  const Buffer* find(BufferKind kind, int edge, Direction direction, std::uint64_t which) const {
    const Entry wanted{what_of(kind, edge, static_cast<int>(direction)), which, 0};
    const auto found = std::ranges::lower_bound(entries_, wanted);
    const bool there =
        found != entries_.end() && found->what == wanted.what && found->which == wanted.which;
    return there ? &p_.buffers[found->index] : nullptr;
  }

  void check_messages() {
    for (int edge = 0; edge < std::ssize(p_.edges); ++edge) {
      const Edge& e = p_.edges[edge];
      if (e.forward_bytes > 0) check_edge(edge, Direction::Forward, e.forward_bytes);
      if (e.backward && e.backward_bytes > 0)
        check_edge(edge, Direction::Backward, e.backward_bytes);
    }
  }

  void check_edge(int edge, Direction direction, std::int64_t bytes) {
    for (int replica = 0; replica < p_.replicas; ++replica)
      for (int microbatch = 0; microbatch < p_.microbatches; ++microbatch)
        for (const BufferKind kind : {BufferKind::Arriving, BufferKind::Leaving}) {
          if (kind == BufferKind::Leaving && !t_.crosses(edge, replica)) continue;
          const Buffer* there = find(kind, edge, direction, which_of(replica, microbatch));
          if (there == nullptr) {
            const Op post = kind == BufferKind::Arriving ? Op::Receive : Op::Send;
            const int stage = endpoint(p_.edges[edge], post, direction);
            const Buffer missing{
                .kind = kind, .edge = edge, .direction = direction, .microbatch = microbatch};
            findings_.add(p_.placement[stage][replica], -1, "buffer ", text_of(missing),
                          " is missing");
          } else if (there->bytes < bytes) {
            complain(*there, "has ", there->bytes, " bytes, but its edge carries ", bytes);
          }
        }
  }

  // Each time between GATHER and FREE needs one buffer around it, where the stage has any.
  void check_gathered() {
    for (int device = 0; device < p_.devices; ++device) {
      const auto& list = p_.lists[device];
      open_.clear();
      for (std::int32_t at = 0; at < std::ssize(list); ++at) {
        const Instruction& i = list[at];
        if (i.op != Op::Gather && i.op != Op::Free) continue;
        const std::uint64_t what = what_of(BufferKind::Gathered, i.stage, i.segment);
        const auto first = std::ranges::lower_bound(entries_, what, {}, &Entry::what);
        if (first == entries_.end() || first->what != what) continue;
        const auto open = std::ranges::lower_bound(open_, what, {},
                                                   &std::pair<std::uint64_t, std::int32_t>::first);
        if (i.op == Op::Gather) {
          open_.insert(open, {what, at});
        } else {
          check_gathered(device, what, {open->second, at});
          open_.erase(open);
        }
      }
    }
  }

  void check_gathered(int device, std::uint64_t what, Span used) {
    const Entry wanted{what, which_of(t_.topology.replica[device], used.first), INT32_MAX};
    auto found = std::ranges::upper_bound(entries_, wanted);
    if (found != entries_.begin() && (--found)->what == what) {
      const Buffer& b = p_.buffers[found->index];
      if (b.device == device && b.last >= used.last) return;
    }
    findings_.add(device, used.first, "no buffer holds what is gathered until instruction ",
                  used.last);
  }

  const Tables& t_;
  const Program& p_;
  Findings& findings_;
  std::vector<Entry> entries_;
  std::vector<std::pair<std::uint64_t, std::int32_t>> open_;  // sorted: (what, position of GATHER)
};

}  // namespace

void check_lifetimes(const Tables& tables, Findings& findings) {
  Lifetimes(tables, findings).check();
}

}  // namespace cleave::schedule::checks
