#include <algorithm>
#include <utility>

#include "cleave/schedule/effects.h"
#include "cleave/schedule/graph.h"
#include "cleave/schedule/passes/pass.h"

namespace cleave::schedule {
namespace {

/// Devices whose order stands for all: those of the first replica, unless some stand for several.
std::vector<int> exemplary_devices(const Program& program, const Topology& topology) {
  const bool alike = !stands_for_several(topology);
  std::vector<int> devices;
  for (int d = 0; d < program.devices; ++d)
    if (alike ? topology.replica[d] == 0 : topology.replica[d] >= 0) devices.push_back(d);
  return devices;
}

/// Runs the compute of these devices as far as it goes, with messages that are there at once. A
/// stage may not run ahead of a reader by more than the windows allow.
class Rush {
 public:
  Rush(const Program& program, const Topology& topology, const std::vector<int>& windows)
      : p_(program),
        topology_(topology),
        windows_(windows),
        devices_(exemplary_devices(program, topology)),
        at_(program.devices, 0),
        sent_(program.edges.size(), std::vector<std::vector<OfReplica>>(program.devices)),
        forward_(static_cast<std::size_t>(program.stages) * program.replicas * program.microbatches,
                 0),
        backward_(forward_.size(), 0) {}

  bool ends() {
    for (bool moved = true; moved;) {
      moved = false;
      for (const int d : devices_)
        for (; at_[d] < std::ssize(p_.lists[d]) && run(d, p_.lists[d][at_[d]]); ++at_[d])
          moved = true;
    }
    return std::ranges::all_of(devices_, [&](int d) { return at_[d] == std::ssize(p_.lists[d]); });
  }

 private:
  std::size_t slot(int stage, const OfReplica& of) const {
    return (static_cast<std::size_t>(stage) * p_.replicas + of.replica) * p_.microbatches +
           of.microbatch;
  }

  bool run(int device, const Instruction& i) {
    const Op op = topology_.acts_as(i);
    const OfReplica of = topology_.of_replica(device, i);
    if (op == Op::Forward) return forward(DeviceId{device}, StageId{i.stage}, of);
    if (!reads(op, Thing::OutputGradient)) return true;
    for (const int e : topology_.outgoing[i.stage])
      if (topology_.carries(e, Direction::Backward, of) && !backward_[slot(p_.edges[e].to, of)])
        return false;
    backward_[slot(i.stage, of)] = 1;
    return true;
  }

  bool forward(DeviceId device, StageId stage, const OfReplica& of) {
    const auto carries = [&](int e) { return topology_.carries(e, Direction::Forward, of); };
    for (const int e : topology_.incoming[stage])
      if (carries(e) && !forward_[slot(p_.edges[e].from, of)]) return false;
    for (const int e : topology_.outgoing[stage])
      if (carries(e) && is_full(e, sent_[e][device])) return false;
    for (const int e : topology_.outgoing[stage])
      if (carries(e)) sent_[e][device].push_back(of);
    forward_[slot(stage, of)] = 1;
    return true;
  }

  /// Messages are waited for in the order in which they were sent: the oldest must have been read.
  bool is_full(int edge, const std::vector<OfReplica>& sent) const {
    const int window = windows_[edge];
    return window > 0 && std::ssize(sent) >= window &&
           !forward_[slot(p_.edges[edge].to, sent[sent.size() - static_cast<std::size_t>(window)])];
  }

  const Program& p_;
  const Topology& topology_;
  const std::vector<int>& windows_;
  std::vector<int> devices_;
  std::vector<std::int64_t> at_;
  std::vector<std::vector<std::vector<OfReplica>>> sent_;  // [edge][device]
  std::vector<char> forward_;
  std::vector<char> backward_;
};

/// True if every device takes the microbatches in the order of their numbers, those of several
/// replicas by turns: messages are then read in about the order in which they are sent.
bool in_order(const Program& program, const Topology& topology) {
  for (const int d : exemplary_devices(program, topology)) {
    std::vector<int> last(program.stages, -1);
    for (const Instruction& i : program.lists[d]) {
      if (i.op != Op::Forward) continue;
      const OfReplica of = topology.of_replica(d, i);
      const int turn = of.microbatch * program.replicas + of.replica;
      if (std::exchange(last[i.stage], turn) >= turn) return false;
    }
  }
  return true;
}

}  // namespace

std::vector<int> send_windows(const Program& program, const Topology& topology) {
  const std::vector<int> none(program.edges.size(), 0);
  std::vector<int> windows = unheard_windows(program, topology);
  if (windows == none || !in_order(program, topology)) return none;
  for (int factor = 1; factor <= 4; factor *= 2) {
    if (Rush(program, topology, windows).ends()) return windows;
    for (int& window : windows) window *= 2;
  }
  return none;
}

}  // namespace cleave::schedule
