#include "schedule/oracle/layout.h"

#include <algorithm>

#include "schedule/oracle/buffer_kinds.h"

namespace cleave::schedule::oracle {

Layout::Layout(const Program& p) : program(p) {
  read_header();
  read_lists();
  read_buffers();
}

void Layout::read_header() {
  const Program& p = program;
  demand(p.stages > 0 && p.devices > 0 && p.replicas > 0 && p.microbatches > 0, "empty program");
  demand(static_cast<int>(p.lists.size()) == p.devices, "lists");
  demand(static_cast<int>(p.placement.size()) == p.stages, "placement");
  demand(static_cast<int>(p.segments.size()) == p.stages, "segments");
  demand(p.budgets.empty() || static_cast<int>(p.budgets.size()) == p.devices, "budgets");
  demand(p.outside_budgets.empty() || static_cast<int>(p.outside_budgets.size()) == p.devices,
         "outside budgets");
  for (std::size_t k = 0; k < p.through_host.size(); ++k) {
    demand(0 <= p.through_host[k] && p.through_host[k] < p.devices, "through the host of nobody");
    demand(k == 0 || p.through_host[k - 1] < p.through_host[k], "through the host twice");
  }
  demand(p.sharing.empty() || static_cast<int>(p.sharing.size()) == p.stages, "sharing");
  demand(p.gradients.empty() || static_cast<int>(p.gradients.size()) == p.stages, "kinds");
  replica_.assign(p.devices, -1);
  count_.assign(p.devices, 0);
  stages_.resize(p.devices);
  for (int s = 0; s < p.stages; ++s) {
    demand(p.segments[s] > 0, "a stage without segments");
    demand(static_cast<int>(p.placement[s].size()) == p.replicas, "one device per replica");
    std::map<int, std::vector<int>> serves;
    for (int r = 0; r < p.replicas; ++r) {
      demand(0 <= p.placement[s][r] && p.placement[s][r] < p.devices,
             "a stage on a device that is not there");
      serves[p.placement[s][r]].push_back(r);
    }
    for (const auto& [d, replicas] : serves) {
      const int count = static_cast<int>(replicas.size());
      demand(replicas.back() - replicas.front() + 1 == count, "replicas that are no neighbours");
      demand(count * static_cast<int>(serves.size()) == p.replicas, "unequal devices of a stage");
      demand(replica_[d] == -1 || replica_[d] == replicas.front(), "a device of other replicas");
      demand(count_[d] == 0 || count_[d] == count, "a device of more or fewer replicas");
      replica_[d] = replicas.front();
      count_[d] = count;
      stages_[d].push_back(s);
    }
  }
  for (const Edge& e : p.edges) {
    demand(0 <= e.from && e.from < p.stages && 0 <= e.to && e.to < p.stages, "edge to nowhere");
    demand(e.from != e.to, "edge from a stage to itself");
    demand(e.forward_bytes >= 0 && e.backward_bytes >= 0, "edge with negative bytes");
  }
  for (const Tie& t : p.ties) {
    demand(0 <= t.first && t.first < p.stages && 0 <= t.second && t.second < p.stages, "tie");
    demand(runs_weight(t.first) && runs_weight(t.second), "tie of a frozen weight");
    demand(count_[p.placement[t.first][0]] == count_[p.placement[t.second][0]], "uneven tie");
  }
  read_kinds();
  for (const int stage : p.collecting) {
    demand(0 <= stage && stage < p.stages, "collects nowhere");
    demand(collecting_.empty() || *collecting_.rbegin() < stage, "collects twice or out of order");
    for (int m = 0; m < p.microbatches; ++m) {
      for (int r = 0; r < p.replicas; ++r) demand(present(stage, r, m), "collects what is absent");
    }
    collecting_.insert(stage);
  }
}

void Layout::read_kinds() {
  const Program& p = program;
  for (const Absence& a : p.absent) {
    demand(0 <= a.stage && a.stage < p.stages && 0 <= a.microbatch &&
               a.microbatch < p.microbatches && -1 <= a.replica && a.replica < p.replicas,
           "absent from nowhere");
    demand(absent_.empty() || *absent_.rbegin() < a, "absent twice");
    demand(a.replica < 0 || present(a.stage, a.replica, a.microbatch), "absent twice");
    absent_.insert(a);
  }
  for (const Edge& e : p.edges)
    if (e.backward) {
      demand(runs_input(e.to), "a gradient that nobody makes");
      demand(runs_input(e.from) || runs_weight(e.from), "a gradient that nobody wants");
    }
  for (int s = 0; s < p.stages; ++s)
    for (int cell = 0; cell < p.replicas * p.microbatches; ++cell) {
      const int r = cell / p.microbatches;
      const int m = cell % p.microbatches;
      int readers = 0;
      int there = 0;
      for (const Edge& e : p.edges) {
        readers += e.from == s && e.backward;
        there += e.from == s && e.backward && present(e.to, r, m);
      }
      demand(!present(s, r, m) || readers == 0 || there > 0, "nobody reads what it makes");
    }
}

bool Layout::sharded(int stage) const {
  return !program.sharing.empty() && program.sharing[stage] == Sharing::Values;
}

bool Layout::refreshed(int stage) const {
  if (program.sharing.empty() || !runs_weight(stage)) return false;
  return program.sharing[stage] == Sharing::State || program.sharing[stage] == Sharing::Gradients;
}

bool Layout::runs_input(int stage) const {
  if (program.gradients.empty()) return true;
  const GradientKind kind = program.gradients[stage];
  return kind != GradientKind::None && kind != GradientKind::WeightOnly;
}

bool Layout::runs_weight(int stage) const {
  if (program.gradients.empty()) return true;
  const GradientKind kind = program.gradients[stage];
  return kind != GradientKind::None && kind != GradientKind::InputOnly;
}

void Layout::read_lists() {
  for (int d = 0; d < program.devices; ++d)
    for (const Instruction& i : program.lists[d]) {
      instructions_.insert({d, i.op, i.stage, i.microbatch, i.segment});
      if (i.op == Op::Norm) has_norm_ = true;
    }
}

bool Layout::holds(int device, int stage) const {
  return std::ranges::count(stages_[device], stage) > 0;
}

bool Layout::same_device(const Edge& edge, int replica) const {
  return program.placement[edge.from][replica] == program.placement[edge.to][replica];
}

bool Layout::has(int device, Op op, int stage, int segment, int microbatch) const {
  if (instructions_.contains({device, op, stage, microbatch, -1})) return true;
  if (segment >= 0) return instructions_.contains({device, op, stage, microbatch, segment});
  for (int k = 0; k < program.segments[stage]; ++k)
    if (instructions_.contains({device, op, stage, microbatch, k})) return true;
  return false;
}

bool Layout::recomputed(int device, int stage, int segment, int microbatch) const {
  if (segment >= 0) return has(device, Op::Recompute, stage, segment, microbatch);
  for (int k = 0; k < program.segments[stage]; ++k)
    if (!has(device, Op::Recompute, stage, k, microbatch)) return false;
  return true;
}

int Layout::mode(BufferKind kind, int device, int stage, int segment, int microbatch) const {
  if (kind == BufferKind::KeptForRecompute || kind == BufferKind::Recomputed)
    return recomputed(device, stage, segment, microbatch) ? 0 : 1;
  if (kind != BufferKind::InputKept) return 0;
  return has(device, Op::BackwardInput, stage, segment, microbatch) ? 0 : 1;
}

void Layout::read_buffers() {
  by_first_.resize(program.devices);
  for (int k = 0; k < static_cast<int>(program.buffers.size()); ++k) read_buffer(k);
  for (auto& buffers : by_first_)
    std::ranges::stable_sort(buffers, {}, [&](int k) { return program.buffers[k].first; });
}

void Layout::read_buffer(int index) {
  const Program& p = program;
  const Buffer& b = p.buffers[index];
  demand(0 <= b.device && b.device < p.devices, "a buffer on no device");
  demand(!lies_on_host(b) || through_host(b.device), "messages reach this device");
  if (of_microbatch(b.kind))
    demand(0 <= b.microbatch && b.microbatch < cells(b.device), "a buffer of no microbatch");
  if (is_edge_buffer(b)) {
    demand(0 <= b.edge && b.edge < static_cast<int>(p.edges.size()), "a buffer of no edge");
    const Edge& e = p.edges[b.edge];
    demand(flows(e, b.direction == Direction::Forward, cell(b.device, b.microbatch)),
           "a buffer of nothing");
    const int downstream = b.direction == Direction::Forward ? e.to : e.from;
    const int upstream = b.direction == Direction::Forward ? e.from : e.to;
    const bool arriving = b.kind == BufferKind::Arriving || b.kind == BufferKind::ArrivingOnHost;
    demand(holds(b.device, arriving ? downstream : upstream), "a buffer of another device");
    demand(b.kind == BufferKind::Arriving || !same_device(e, replica_[b.device]),
           "nothing leaves this device");
  } else if (b.kind != BufferKind::Scratch && b.kind != BufferKind::ScratchOnHost) {
    demand(0 <= b.stage && b.stage < p.stages && holds(b.device, b.stage), "a buffer of no stage");
    demand(-1 <= b.segment && b.segment < p.segments[b.stage], "a buffer of no segment");
    demand(!of_microbatch(b.kind) || present_in(b.stage, cell(b.device, b.microbatch)),
           "a buffer of nobody");
    const bool of_state = b.kind == BufferKind::FetchedState || b.kind == BufferKind::StoredState;
    const bool moved = of_state ? state_moves(b.device, b.stage, b.segment)
                                : moves(b.device, b.stage, b.segment, b.microbatch);
    demand(b.kind < BufferKind::ReturnedForInput || lies_on_host(b) || moved,
           "a buffer of what stays");
    demand(b.kind != BufferKind::SegmentInput || b.segment > 0, "no segment before it");
    demand(b.kind != BufferKind::Collected ||
               (collects(b.stage) && b.segment == collected_segment(b.stage)),
           "a buffer of what nobody collects");
    demand(b.kind != BufferKind::SegmentGradient ||
               (b.segment >= 0 && b.segment + 1 < p.segments[b.stage]),
           "no segment after it");
    if (!is_end(b))
      declared_.insert(
          {b.kind, b.stage, b.segment, mode(b.kind, b.device, b.stage, b.segment, b.microbatch)});
    else
      declared_.insert({b.kind, b.stage, -1, 0});
  }
  const int end = std::max(static_cast<int>(p.lists[b.device].size()) - 1, 0);
  demand(0 <= b.first && b.first <= b.last && b.last <= end, "a buffer beyond its list");
  demand(b.bytes >= 0 && b.offset >= 0 && b.offset % 64 == 0, "a buffer in no place");
  const auto& budgets = lies_outside(b) ? p.outside_budgets : p.budgets;
  if (!budgets.empty() && !lies_on_host(b))
    demand(b.bytes <= budgets[b.device] && b.offset <= budgets[b.device] - b.bytes,
           "a buffer beyond the budget");
  by_first_[b.device].push_back(index);
  if (comes_again(b.kind)) return;
  demand(buffers_.emplace(name_of(b), index).second, "two buffers for one thing");
}

Layout::Name Layout::name_of(const Buffer& b) const {
  const int microbatch = of_microbatch(b.kind) ? b.microbatch : -1;
  if (is_edge_buffer(b))
    return {b.device, b.kind, -1, b.edge, static_cast<int>(b.direction), microbatch, -1};
  if (is_end(b)) return {b.device, b.kind, b.stage, -1, 0, microbatch, -1};
  if (b.kind == BufferKind::Scratch || b.kind == BufferKind::ScratchOnHost)
    return {b.device, b.kind, -1, -1, 0, -1, -1};
  return {b.device, b.kind, b.stage, -1, 0, microbatch, b.segment};
}

int Layout::find(const Name& name) const {
  const auto found = buffers_.find(name);
  return found == buffers_.end() ? -1 : found->second;
}

int Layout::kept(int device, BufferKind kind, int stage, int segment, int microbatch) const {
  return find({device, kind, stage, -1, 0, of_microbatch(kind) ? microbatch : -1, segment});
}

int Layout::stage_end(int device, BufferKind kind, int stage, int microbatch) const {
  return find({device, kind, stage, -1, 0, microbatch, -1});
}

int Layout::carried(int device, BufferKind kind, int edge, Direction direction,
                    int microbatch) const {
  return find({device, kind, -1, edge, static_cast<int>(direction), microbatch, -1});
}

bool Layout::declared(BufferKind kind, int stage, int segment, int mode) const {
  return declared_.contains({kind, stage, segment, mode});
}

}  // namespace cleave::schedule::oracle
