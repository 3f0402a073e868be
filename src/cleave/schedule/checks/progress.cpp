#include <algorithm>
#include <functional>
#include <queue>

#include "cleave/schedule/checks/checks.h"
#include "cleave/schedule/checks/posted_collectives.h"
#include "cleave/schedule/effects.h"

namespace cleave::schedule::checks {
namespace {

constexpr int kNobody = -1;

// Runs every device as far as it can go. Nothing that a device does can stop another one from
// moving, so one order of running stands for all: if this one gets stuck, every one does.
class Run {
 public:
  Run(const Tables& tables, Level level, Findings& findings)
      : t_(tables),
        p_(tables.program),
        level_(level),
        findings_(findings),
        at_(p_.devices, 0),
        needs_(p_.devices),
        waiters_(p_.devices),
        norm_(p_.ties.size() * p_.replicas),
        meetings_(norm_ + 1),
        collectives_(tables) {}

  void run() {
    for (int d = p_.devices - 1; d >= 0; --d) ready_.push_back(d);
    while (!ready_.empty()) {
      const int d = ready_.back();
      ready_.pop_back();
      advance(d);
      wake_waiters(d);
    }
    report_stuck();
  }

 private:
  // Until `device` has run past `position`, or, if one of the others is set, until all have come to
  // a meeting or have posted a collective.
  struct Need {
    int device = kNobody;
    std::int32_t position = -1;
    std::size_t meeting = kNone;
    std::size_t collective = kNone;
    static constexpr std::size_t kNone = static_cast<std::size_t>(-1);

    bool none() const { return device == kNobody && collective == kNone; }
  };

  struct Meeting {
    std::vector<int> arrived;  // devices that stand at it
    int missing = kNobody;     // one that has not come, once somebody has asked
  };

  bool finished(int d) const { return at_[d] == std::ssize(p_.lists[d]); }

  void advance(int d) {
    const auto& list = p_.lists[d];
    needs_[d] = {};
    while (at_[d] < std::ssize(list)) {
      const Instruction& i = list[at_[d]];
      if (is_meeting(i.op)) return arrive(d, i);
      const Need need = level_ == Level::Compute ? implied_need(d, i) : need_of(d, i);
      if (!need.none()) return wait(d, need);
      ++at_[d];
      if (!is_posted_collective(i.op)) continue;
      const std::vector<int> done_waiting = collectives_.post(d, i.stage);
      ready_.insert(ready_.end(), done_waiting.begin(), done_waiting.end());
    }
  }

  void wait(int d, const Need& need) {
    needs_[d] = need;
    if (need.collective != Need::kNone)
      collectives_.wait(need.collective, d);
    else
      waiters_[need.device].push({need.position, d});
  }

  void wake_waiters(int d) {
    auto& waiting = waiters_[d];
    while (!waiting.empty() && waiting.top().first < at_[d]) {
      ready_.push_back(waiting.top().second);
      waiting.pop();
    }
  }

  // A message moves only when both ends are posted, a collective when all members have posted it:
  // each WAIT needs the posts of the others.
  Need need_of(int d, const Instruction& i) const {
    if (i.op != Op::Wait || is_move(i)) return {};
    if (!is_message(i)) return need_of_collective(d);
    const OfReplica of = t_.topology.of_replica(d, i);
    const Message& m = t_.message(i.edge, i.direction, of);
    const Op other = i.completes == Op::Send ? Op::Receive : Op::Send;
    const int peer = p_.placement[endpoint(p_.edges[i.edge], other, i.direction)][of.replica];
    const std::int32_t post = other == Op::Send ? m.send : m.receive;
    return at_[peer] > post ? Need{} : Need{peer, post};
  }

  Need need_of_collective(int d) const {
    const std::size_t collective = collectives_.awaited(d, at_[d]);
    return collectives_.is_complete(collective, d) ? Need{} : Need{.collective = collective};
  }

  // Without messages in the lists, F and I need their producers on other devices.
  Need implied_need(int d, const Instruction& i) const {
    const Op op = t_.topology.acts_as(i);
    const bool forward = op == Op::Forward;
    if (!forward && !reads(op, Thing::OutputGradient)) return {};
    const Direction direction = forward ? Direction::Forward : Direction::Backward;
    const OfReplica of = t_.topology.of_replica(d, i);
    for (const int e : (forward ? t_.topology.incoming : t_.topology.outgoing)[i.stage]) {
      const Edge& edge = p_.edges[e];
      if (!t_.topology.carries(e, direction, of)) continue;
      const int from = forward ? edge.from : edge.to;
      const int peer = p_.placement[from][of.replica];
      if (peer == d) continue;
      const Unit& unit = t_.unit(from, of);
      const std::int32_t made = forward ? unit.forward.last : unit.input.last;
      if (at_[peer] <= made) return {peer, made};
    }
    return {};
  }

  /// TIE and NORM: nobody goes on before all have come.
  static bool is_meeting(Op op) {
    return !effects(op).posts && effects(op).members != Members::Alone;
  }

  std::size_t meeting_of(int d, const Instruction& i) const {
    if (effects(i.op).members == Members::All) return norm_;
    return static_cast<std::size_t>(i.edge) * p_.replicas + t_.topology.replica[d];
  }

  std::vector<int> members(int d, const Instruction& i) const {
    if (effects(i.op).members == Members::Tied) {
      const int replica = t_.topology.replica[d];
      const int first = p_.placement[p_.ties[i.edge].first][replica];
      const int second = p_.placement[p_.ties[i.edge].second][replica];
      return first == second ? std::vector{first} : std::vector{first, second};
    }
    std::vector<int> all(p_.devices);
    for (int device = 0; device < p_.devices; ++device) all[device] = device;
    return all;
  }

  std::int64_t member_count(int d, const Instruction& i) const {
    return effects(i.op).members == Members::All ? p_.devices : std::ssize(members(d, i));
  }

  // Whoever has arrived stands still, so the next time round cannot begin before this one ends.
  void arrive(int d, const Instruction& i) {
    const std::size_t id = meeting_of(d, i);
    std::vector<int>& arrived = meetings_[id].arrived;
    arrived.push_back(d);
    needs_[d].meeting = id;
    if (std::ssize(arrived) < member_count(d, i)) return;
    for (const int member : arrived) {
      ++at_[member];
      ready_.push_back(member);
    }
    arrived.clear();
  }

  // Who keeps a stuck device waiting. Meetings and collectives: the first member that is missing,
  // which is looked for once, for all that wait there.
  int blocker(int d) {
    const Need& need = needs_[d];
    if (need.meeting != Need::kNone) {
      int& missing = meetings_[need.meeting].missing;
      if (missing == kNobody) missing = missing_at_meeting(d);
      return missing;
    }
    if (need.collective == Need::kNone) return need.device;
    return collectives_.missing(need.collective, p_.lists[d][at_[d]].stage, at_);
  }

  int missing_at_meeting(int d) const {
    std::vector<int> arrived = meetings_[needs_[d].meeting].arrived;
    std::ranges::sort(arrived);
    const std::vector<int> all = members(d, p_.lists[d][at_[d]]);
    const auto missing = std::ranges::find_if_not(
        all, [&](int member) { return std::ranges::binary_search(arrived, member); });
    CLEAVE_CHECK(missing != all.end(), "device ", d,
                 " waits at a collective to which all have come");
    return *missing;
  }

  std::string text_at(int d, std::int32_t position) const {
    return cleave::detail::concat("instruction ", position, " (", to_string(p_.lists[d][position]),
                                  ")");
  }

  std::string wait_text(int d, int on) const {
    using cleave::detail::concat;
    const Need& need = needs_[d];
    const std::string start =
        concat("device ", d, " at ", text_at(d, at_[d]), " waits for device ", on);
    if (need.meeting != Need::kNone) return concat(start, " to join it");
    const std::int32_t position =
        need.collective == Need::kNone
            ? need.position
            : collectives_.post_of(on, p_.lists[d][at_[d]].stage, need.collective);
    return concat(start, " to run ", text_at(on, position));
  }

  void report_stuck() {
    std::vector<int> round(p_.devices, 0);  // in which walk a device was met; 0: in none
    for (int start = 0; start < p_.devices && !findings_.full(); ++start) {
      int d = start;
      while (!finished(d) && round[d] == 0) {
        round[d] = start + 1;
        d = blocker(d);
      }
      if (d == start && finished(d)) continue;
      if (finished(d))
        report_end(start, d);
      else if (round[d] == start + 1)
        report_cycle(d);
    }
  }

  void report_cycle(int first) {
    std::string text = "deadlock: ";
    int d = first;
    int shown = 0;
    do {
      const int on = blocker(d);
      if (shown < kMostShown) text += (shown > 0 ? "; " : "") + wait_text(d, on);
      ++shown;
      d = on;
    } while (d != first);
    if (shown > kMostShown)
      text += cleave::detail::concat("; and ", shown - kMostShown, " more until device ", first);
    findings_.add(first, at_[first], text);
  }

  // Only a collective can be left waiting for a device that is done: messages are matched before.
  void report_end(int start, int done) {
    int d = start;
    while (blocker(d) != done) d = blocker(d);
    findings_.add(d, at_[d], "deadlock: waits for device ", done,
                  ", which ends without joining it");
  }

  static constexpr int kMostShown = 16;

  using Waiter = std::pair<std::int32_t, int>;  // (position to pass, device that waits)

  const Tables& t_;
  const Program& p_;
  Level level_;
  Findings& findings_;
  std::vector<std::int32_t> at_;  // [device] the instruction to run next
  std::vector<Need> needs_;
  std::vector<std::priority_queue<Waiter, std::vector<Waiter>, std::greater<>>> waiters_;
  std::size_t norm_;  // in meetings_, after the ties of every replica
  std::vector<Meeting> meetings_;
  PostedCollectives collectives_;
  std::vector<int> ready_;
};

}  // namespace

void check_progress(const Tables& tables, Level level, Findings& findings) {
  Run(tables, level, findings).run();
}

}  // namespace cleave::schedule::checks
