#include <algorithm>

#include "schedule/oracle/samples.h"

#include "cleave/base/check.h"

namespace cleave::schedule::oracle {
namespace {

using cleave::detail::concat;

class Mutation {
 public:
  Mutation(Program& program, std::mt19937& random) : p_(program), random_(random) {}

  std::string instruction() {
    const int d = draw(p_.devices);
    auto& list = p_.lists[d];
    if (list.empty()) return "nothing";
    const int at = draw(static_cast<int>(list.size()));
    const std::string where = concat(" ", d, ":", at, " ", to_string(list[at]));
    switch (draw(8)) {
      case 0:
        list.erase(list.begin() + at);
        return "drop" + where;
      case 1:
        list.insert(list.begin() + draw(static_cast<int>(list.size()) + 1), Instruction(list[at]));
        return "duplicate" + where;
      case 2:
      case 3:
      case 4:
        if (at + 1 < static_cast<int>(list.size())) std::swap(list[at], list[at + 1]);
        return "swap with next" + where;
      case 5:
        std::swap(list[at], list[draw(static_cast<int>(list.size()))]);
        return "swap" + where;
      case 6:
        move(list, at);
        return "move" + where;
      default:
        return retarget(list[at]) + where;
    }
  }

  std::string elsewhere() {
    const int from = draw(p_.devices);
    const int to = draw(p_.devices);
    if (p_.lists[from].empty()) return "nothing";
    const int at = draw(static_cast<int>(p_.lists[from].size()));
    const Instruction moved = p_.lists[from][at];
    p_.lists[from].erase(p_.lists[from].begin() + at);
    p_.lists[to].insert(p_.lists[to].begin() + draw(static_cast<int>(p_.lists[to].size()) + 1),
                        moved);
    return concat("move ", to_string(moved), " from device ", from, " to ", to);
  }

  std::string buffer() {
    const int k = draw(static_cast<int>(p_.buffers.size()));
    Buffer& b = p_.buffers[k];
    switch (draw(9)) {
      case 0:
        p_.buffers.erase(p_.buffers.begin() + k);
        return concat("drop buffer ", k);
      case 1:
        p_.buffers.push_back(Buffer(b));
        if (draw(2)) p_.buffers.back().offset += 64 * draw(40);
        return concat("duplicate buffer ", k);
      case 2:
      case 3:
        b.offset += draw(10) == 0 ? draw(3) - 1 : 64 * (draw(9) - 4);
        return concat("shift buffer ", k);
      case 4:
        b.first += draw(5) - 2;
        return concat("change birth of buffer ", k);
      case 5:
        b.last += draw(5) - 2;
        return concat("change death of buffer ", k);
      case 6:
        b.bytes += draw(131) - 65;
        return concat("resize buffer ", k);
      case 7:
        std::swap(b.offset, p_.buffers[draw(static_cast<int>(p_.buffers.size()))].offset);
        return concat("swap offset of buffer ", k);
      default:
        return retarget(b) + concat(" of buffer ", k);
    }
  }

  std::string header() {
    switch (draw(13)) {
      case 12:
        if (p_.through_host.empty() || draw(2))
          p_.through_host.push_back(draw(p_.devices + 1));
        else
          p_.through_host.pop_back();
        return "change who passes messages through the host";
      case 8:
        if (p_.sharing.empty()) p_.sharing.assign(p_.stages, Sharing::Nothing);
        p_.sharing[draw(p_.stages)] = static_cast<Sharing>(draw(4));
        return "change sharing";
      case 9:
        if (p_.gradients.empty()) p_.gradients.assign(p_.stages, GradientKind::Full);
        p_.gradients[draw(p_.stages)] = static_cast<GradientKind>(draw(4));
        return "change a gradient kind";
      case 10:
        return absence();
      case 11:
        if (p_.collecting.empty() || draw(3) == 0)
          p_.collecting.push_back(draw(p_.stages + 1));
        else if (draw(2))
          p_.collecting.pop_back();
        else
          nudge(p_.collecting[0]);
        return "change what is collected";
      case 0:
        return edge();
      case 1:
        if (p_.ties.empty()) return edge();
        (draw(2) ? p_.ties[0].first : p_.ties[0].second) = draw(p_.stages + 1);
        return "change a tie";
      case 2:
        nudge(p_.segments[draw(p_.stages)]);
        return "change segments";
      case 3:
        nudge(p_.microbatches);
        return "change microbatches";
      case 4:
        p_.placement[draw(p_.stages)][draw(p_.replicas)] = draw(p_.devices + 1);
        return "change placement";
      case 5:
        if (!p_.outside_budgets.empty() && draw(2)) {
          p_.outside_budgets[draw(p_.devices)] += 64 * (draw(5) - 2) - draw(2);
          return "change an outside budget";
        }
        if (p_.budgets.empty()) return edge();
        p_.budgets[draw(p_.devices)] += 64 * (draw(5) - 2) - draw(2);
        return "change a budget";
      case 6:
        p_.ties.push_back({.first = draw(p_.stages), .second = draw(p_.stages)});
        return "add a tie";
      default:
        p_.edges.push_back({.from = draw(p_.stages), .to = draw(p_.stages)});
        return "add an edge";
    }
  }

  // Waits for some SENDs at once and posts some RECVs only when they are waited for: what works as
  // long as messages are buffered.
  std::string tighten() {
    const int share = 1 + draw(4);
    for (auto& list : p_.lists)
      for (std::size_t at = 0; at < list.size(); ++at) {
        const Instruction i = list[at];
        if (i.op != Op::Wait || draw(4) >= share) continue;
        Instruction post = i;
        post.op = i.completes;
        post.completes = Op::Forward;
        const auto posted = std::find(list.begin(), list.begin() + at, post);
        if (posted == list.begin() + at) continue;
        if (i.completes == Op::Send)
          std::rotate(posted + 1, list.begin() + at, list.begin() + at + 1);
        else
          std::rotate(posted, posted + 1, list.begin() + at);
      }
    return "tighten";
  }

 private:
  int draw(int bound) { return static_cast<int>(random_() % static_cast<unsigned>(bound)); }

  template <class T>
  void nudge(T& value) {
    value += draw(2) ? 1 : -1;
  }

  void move(std::vector<Instruction>& list, int at) {
    const Instruction moved = list[at];
    list.erase(list.begin() + at);
    const int target = draw(2) ? std::clamp(at + draw(9) - 4, 0, static_cast<int>(list.size()))
                               : draw(static_cast<int>(list.size()) + 1);
    list.insert(list.begin() + target, moved);
  }

  std::string absence() {
    if (!p_.absent.empty() && draw(2)) {
      p_.absent.erase(p_.absent.begin() + draw(static_cast<int>(p_.absent.size())));
      return "drop an absence";
    }
    p_.absent.push_back({draw(p_.stages + 1), draw(std::max(p_.microbatches, 0) + 1),
                         draw(2) ? Absence::kEveryReplica : draw(std::max(p_.replicas, 0) + 1)});
    if (draw(4)) std::ranges::sort(p_.absent);
    return "add an absence";
  }

  std::string edge() {
    if (p_.edges.empty()) return "nothing";
    const int k = draw(static_cast<int>(p_.edges.size()));
    Edge& e = p_.edges[k];
    switch (draw(5)) {
      case 0:
        e.from = draw(p_.stages + 1);
        return concat("retarget start of edge ", k);
      case 1:
        e.to = draw(p_.stages + 1);
        return concat("retarget end of edge ", k);
      case 2:
        e.backward = !e.backward;
        return concat("flip backward of edge ", k);
      case 3:
        (draw(2) ? e.forward_bytes : e.backward_bytes) += draw(130) - 30;
        return concat("resize edge ", k);
      default:
        std::swap(e.from, e.to);
        return concat("turn edge ", k);
    }
  }

  template <class T>
  std::string retarget(T& thing) {
    switch (draw(6)) {
      case 0:
        nudge(thing.stage);
        return "retarget stage";
      case 1:
        nudge(thing.segment);
        return "retarget segment";
      case 2:
        nudge(thing.microbatch);
        return "retarget microbatch";
      case 3:
        nudge(thing.edge);
        return "retarget edge";
      case 4:
        thing.direction =
            thing.direction == Direction::Forward ? Direction::Backward : Direction::Forward;
        return "retarget direction";
      default:
        return retarget_kind(thing);
    }
  }

  std::string retarget_kind(Instruction& i) {
    if (i.op == Op::Wait && draw(2))
      i.completes = static_cast<Op>(draw(kOps));
    else
      i.op = static_cast<Op>(draw(kOps));
    return "retarget op";
  }

  /// One of the kinds up to Outside, or of those on the host.
  BufferKind any_kind() {
    constexpr int kBefore = static_cast<int>(BufferKind::Outside) + 1;
    constexpr int kOnHost = static_cast<int>(BufferKind::ArrivingOnHost);
    const int number = draw(kBefore + static_cast<int>(BufferKind::ScratchOnHost) + 1 - kOnHost);
    return static_cast<BufferKind>(number < kBefore ? number : number - kBefore + kOnHost);
  }

  std::string retarget_kind(Buffer& b) {
    if (draw(2))
      b.device = draw(p_.devices);
    else
      b.kind = any_kind();
    return "retarget kind or device";
  }

  Program& p_;
  std::mt19937& random_;
};

}  // namespace

namespace {

// Does to the other replicas what was done to one, so that collectives still meet.
void repeat_on_replicas(Program& program, const std::vector<std::vector<Instruction>>& before) {
  for (std::size_t d = 0; d < before.size(); ++d) {
    if (program.lists[d] == before[d]) continue;
    for (std::size_t other = 0; other < before.size(); ++other)
      if (other != d && before[other] == before[d]) program.lists[other] = program.lists[d];
  }
}

}  // namespace

std::string mutate(Program& program, std::mt19937& random) {
  Mutation mutation(program, random);
  const unsigned what = static_cast<unsigned>(random() % 100);
  if (!program.buffers.empty() && what < 50) return mutation.buffer();
  if (what < 60) return mutation.header();
  if (program.buffers.empty() && what >= 95) return mutation.tighten();
  if (what < 65) return mutation.elsewhere();
  if (program.replicas == 1 || random() % 2) return mutation.instruction();
  const auto before = program.lists;
  const std::string done = mutation.instruction();
  repeat_on_replicas(program, before);
  return done + " on all replicas";
}

}  // namespace cleave::schedule::oracle
