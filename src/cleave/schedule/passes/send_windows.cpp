#include <algorithm>
#include <optional>
#include <utility>

#include "cleave/schedule/effects.h"
#include "cleave/schedule/graph.h"
#include "cleave/schedule/passes/pass.h"

namespace cleave::schedule {
namespace {

bool is_unheard(const Program& program, const Edge& edge) {
  return !edge.backward && gradients_of(program, edge.from) == GradientKind::None;
}

/// Runs the compute of one replica as far as it goes, with messages that are there at once. A stage
/// may not run ahead of a reader by more than the windows allow.
class Rush {
 public:
  Rush(const Program& program, const Topology& topology, const std::vector<int>& windows)
      : p_(program),
        topology_(topology),
        windows_(windows),
        at_(program.devices, 0),
        sent_(program.edges.size(), 0),
        read_(program.edges.size(), 0),
        forward_(static_cast<std::size_t>(program.stages) * program.microbatches, 0),
        backward_(forward_.size(), 0) {}

  bool ends() {
    for (bool moved = true; moved;) {
      moved = false;
      for (int d = 0; d < p_.devices; ++d) {
        if (topology_.replica[d] != 0) continue;
        for (; at_[d] < std::ssize(p_.lists[d]) && run(p_.lists[d][at_[d]]); ++at_[d]) moved = true;
      }
    }
    for (int d = 0; d < p_.devices; ++d)
      if (topology_.replica[d] == 0 && at_[d] < std::ssize(p_.lists[d])) return false;
    return true;
  }

 private:
  std::size_t slot(int stage, int microbatch) const {
    return static_cast<std::size_t>(stage) * p_.microbatches + microbatch;
  }

  bool run(const Instruction& i) {
    const Op op = topology_.acts_as(i);
    if (op == Op::Forward) return forward(i);
    if (!reads(op, Thing::OutputGradient)) return true;
    for (const int e : topology_.outgoing[i.stage])
      if (topology_.carries(e, Direction::Backward, 0, i.microbatch) &&
          !backward_[slot(p_.edges[e].to, i.microbatch)])
        return false;
    backward_[slot(i.stage, i.microbatch)] = 1;
    return true;
  }

  bool forward(const Instruction& i) {
    const auto carries = [&](int e) {
      return topology_.carries(e, Direction::Forward, 0, i.microbatch);
    };
    for (const int e : topology_.incoming[i.stage])
      if (carries(e) && !forward_[slot(p_.edges[e].from, i.microbatch)]) return false;
    // Messages are waited for in the order in which they were sent: as many must have been read.
    for (const int e : topology_.outgoing[i.stage])
      if (carries(e) && windows_[e] > 0 && sent_[e] - read_[e] >= windows_[e]) return false;
    for (const int e : topology_.outgoing[i.stage]) sent_[e] += carries(e);
    for (const int e : topology_.incoming[i.stage]) read_[e] += carries(e);
    forward_[slot(i.stage, i.microbatch)] = 1;
    return true;
  }

  const Program& p_;
  const Topology& topology_;
  const std::vector<int>& windows_;
  std::vector<std::int64_t> at_;
  std::vector<int> sent_;  // [edge]
  std::vector<int> read_;  // [edge]
  std::vector<char> forward_;
  std::vector<char> backward_;
};

/// True if every reader takes the messages of an edge in the order in which they are sent: then as
/// many have been read as the oldest ones are.
bool in_order(const Program& program, const Topology& topology) {
  std::vector<int> last(program.stages, -1);
  for (int d = 0; d < program.devices; ++d) {
    if (topology.replica[d] != 0) continue;
    for (const Instruction& i : program.lists[d])
      if (i.op == Op::Forward && std::exchange(last[i.stage], i.microbatch) >= i.microbatch)
        return false;
  }
  return true;
}

}  // namespace

std::vector<int> send_windows(const Program& program, const Topology& topology) {
  std::vector<int> windows(program.edges.size(), 0);
  const auto unheard = [&](const Edge& edge) { return is_unheard(program, edge); };
  if (std::ranges::none_of(program.edges, unheard) || !in_order(program, topology)) return windows;
  const std::optional<std::vector<int>> distance = longest_paths(program.stages, program.edges);
  if (!distance) return windows;
  for (int factor = 1; factor <= 4; factor *= 2) {
    for (std::size_t e = 0; e < windows.size(); ++e)
      if (unheard(program.edges[e])) windows[e] = factor * ((*distance)[program.edges[e].from] + 1);
    if (Rush(program, topology, windows).ends()) return windows;
  }
  return std::vector<int>(program.edges.size(), 0);
}

}  // namespace cleave::schedule
