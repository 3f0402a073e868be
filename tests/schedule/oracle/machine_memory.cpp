#include <algorithm>

#include "schedule/oracle/buffer_kinds.h"
#include "schedule/oracle/machine.h"

// Memory as the executor sees it: at an instruction it acquires the buffers that begin there, and
// after it releases those that end there. Two alive buffers must not share a byte.

namespace cleave::schedule::oracle {

void Machine::begin_instruction(int d) {
  begun_[d] = 1;
  if (messages_ == Messages::Implied) return;
  const std::vector<int>& order = layout_->by_first(d);
  while (next_buffer_[d] < static_cast<int>(order.size()) &&
         layout_->program.buffers[order[next_buffer_[d]]].first == at_[d])
    acquire(d, order[next_buffer_[d]++]);
  check_static(d);
}

void Machine::end_instruction(int d) {
  begun_[d] = 0;
  std::erase_if(alive_[d], [&](int k) {
    const bool ends = layout_->program.buffers[k].last == at_[d];
    if (ends) memory_[k].alive = false;
    return ends;
  });
  ++at_[d];
}

void Machine::acquire(int d, int buffer) {
  const Buffer& b = layout_->program.buffers[buffer];
  for (const int k : alive_[d]) {
    const Buffer& other = layout_->program.buffers[k];
    const auto memory = [](BufferKind kind) {
      const bool outside = kind == BufferKind::Outside || kind == BufferKind::StoredState;
      return outside ? 1 : kind >= BufferKind::ArrivingOnHost ? 2 : 0;
    };
    const bool elsewhere = memory(b.kind) != memory(other.kind);
    const bool apart = elsewhere || b.bytes == 0 || other.bytes == 0 ||
                       b.offset + b.bytes <= other.offset || other.offset + other.bytes <= b.offset;
    demand(apart, "two buffers share a byte");
    const bool same_parameters = comes_again(b.kind) && other.kind == b.kind &&
                                 other.stage == b.stage && other.segment == b.segment;
    demand(!same_parameters, "two buffers for the same parameters");
  }
  memory_[buffer].alive = true;
  alive_[d].push_back(buffer);
}

// Weights, gradients, optimizer state and scratch are there all the time, on all replicas alike;
// shares of gradients from REDUCE on.
void Machine::check_static(int d) const {
  const Program& p = layout_->program;
  if (p.buffers.empty()) return;
  for (const int stage : layout_->stages(d))
    for (const BufferKind kind : {BufferKind::Weights, BufferKind::Gradients, BufferKind::Optimizer,
                                  BufferKind::FetchedState, BufferKind::StoredState})
      for (int segment = -1; segment < p.segments[stage]; ++segment) {
        if (!layout_->declared(kind, stage, segment)) continue;
        const int buffer = layout_->kept(d, kind, stage, segment, -1);
        const bool comes_and_goes = kind == BufferKind::FetchedState;
        demand(buffer >= 0 && (comes_and_goes || memory_[buffer].alive),
               "no room for weights and the like");
      }
  for (const int share : shares_[d]) touch(share);
  for (const int k : layout_->by_first(d))
    if (p.buffers[k].kind == BufferKind::Scratch || p.buffers[k].kind == BufferKind::ScratchOnHost)
      demand(memory_[k].alive, "no scratch");
}

void Machine::touch(int buffer) const {
  demand(buffer < 0 || memory_[buffer].alive, "touches a buffer that is not alive");
}

void Machine::write(int buffer, Mask part) {
  touch(buffer);
  if (buffer >= 0) memory_[buffer].content |= part;
}

void Machine::read(int buffer, Mask part) const {
  touch(buffer);
  if (buffer < 0) return;
  demand(!memory_[buffer].in_flight, "reads a buffer that a message is filling");
  demand((memory_[buffer].content & part) == part, "reads what was not written");
}

// `level` -1: the stage's own buffer of the kind; k: that of segment k. -1 if there need be none.
int Machine::kept(int d, BufferKind kind, const Instruction& i, int level) const {
  if (messages_ == Messages::Implied) return -1;
  const int mode = layout_->mode(kind, d, i.stage, level, i.microbatch);
  if (!layout_->declared(kind, i.stage, level, mode)) return -1;
  const int buffer = layout_->kept(d, kind, i.stage, level, i.microbatch);
  demand(buffer >= 0, "no buffer for what is kept");
  return buffer;
}

int Machine::carried(int d, BufferKind kind, int e, Direction direction, int microbatch) const {
  const Program& p = layout_->program;
  if (p.buffers.empty() || messages_ == Messages::Implied) return -1;
  const int buffer = layout_->carried(d, kind, e, direction, microbatch);
  const Edge& edge = p.edges[e];
  const std::int64_t bytes =
      direction == Direction::Forward ? edge.forward_bytes : edge.backward_bytes;
  demand(buffer >= 0 || bytes == 0, "no buffer for a message");
  demand(buffer < 0 || p.buffers[buffer].bytes >= bytes, "a message larger than its buffer");
  return buffer;
}

// F writes what its passes need unless R will; R writes it once more.
void Machine::keep(int d, const Instruction& i, int segment, bool again) {
  for (const int level : {-1, segment}) {
    const bool later = layout_->recomputed(d, i.stage, level, i.microbatch);
    if (!again && later) write(kept(d, BufferKind::KeptForRecompute, i, level), Mask{1} << segment);
    if (!again && later) continue;
    for (const BufferKind kind : {BufferKind::KeptForInput, BufferKind::KeptForWeight})
      write(kept(d, kind, i, level), Mask{1} << segment);
  }
}

void Machine::read_inputs(int d, const Instruction& i, Direction direction) {
  const Program& p = layout_->program;
  const bool forward = direction == Direction::Forward;
  for (int e = 0; e < static_cast<int>(p.edges.size()); ++e) {
    const Edge& edge = p.edges[e];
    if ((forward ? edge.to : edge.from) != i.stage ||
        !layout_->flows(edge, forward, layout_->cell(d, i.microbatch)))
      continue;
    read(carried(d, BufferKind::Arriving, e, direction, i.microbatch), 1);
  }
  if (!forward || messages_ == Messages::Implied) return;
  if (!layout_->declared(BufferKind::Arriving, i.stage, -1)) return;
  const int end = layout_->stage_end(d, BufferKind::Arriving, i.stage, i.microbatch);
  demand(end >= 0, "no buffer for what the stage loads");
  // F loads it; R finds it there.
  if (i.op == Op::Forward) write(end, 1);
  read(end, 1);
}

void Machine::write_outputs(int d, const Instruction& i, Direction direction) {
  const Program& p = layout_->program;
  const bool forward = direction == Direction::Forward;
  for (int e = 0; e < static_cast<int>(p.edges.size()); ++e) {
    const Edge& edge = p.edges[e];
    if ((forward ? edge.from : edge.to) != i.stage ||
        !layout_->flows(edge, forward, layout_->cell(d, i.microbatch)))
      continue;
    const bool stays = layout_->same_device(edge, layout_->replica(d));
    write(
        carried(d, stays ? BufferKind::Arriving : BufferKind::Leaving, e, direction, i.microbatch),
        1);
  }
  if (!forward || messages_ == Messages::Implied) return;
  if (!layout_->declared(BufferKind::Leaving, i.stage, -1)) return;
  const int end = layout_->stage_end(d, BufferKind::Leaving, i.stage, i.microbatch);
  demand(end >= 0, "no buffer for what the stage yields");
  touch(end);
}

namespace {

BufferKind passed_through(Op collective) {
  switch (collective) {
    case Op::Reduce:
      return BufferKind::ReducingOnHost;
    case Op::Gather:
      return BufferKind::GatheringOnHost;
    case Op::Refresh:
      return BufferKind::RefreshingOnHost;
    default:
      return BufferKind::CollectingOnHost;
  }
}

}  // namespace

int Machine::passing_on_host(int d, Op collective, const Instruction& i) const {
  const BufferKind kind = passed_through(collective);
  if (messages_ == Messages::Implied || !layout_->through_host(d)) return -1;
  if (!layout_->declared(kind, i.stage, i.segment)) return -1;
  for (const int k : alive_[d]) {
    const Buffer& b = layout_->program.buffers[k];
    if (b.kind == kind && b.stage == i.stage && b.segment == i.segment) return k;
  }
  throw Fault("no room on the host for what replicas exchange");
}

void Machine::hold_gathered(int d, const Instruction& i) {
  if (!layout_->declared(BufferKind::Gathered, i.stage, i.segment)) return;
  for (const int k : alive_[d]) {
    const Buffer& b = layout_->program.buffers[k];
    if (b.kind != BufferKind::Gathered || b.stage != i.stage || b.segment != i.segment) continue;
    holding_.push_back({{d, i.stage, i.segment}, k});
    return;
  }
  throw Fault("no buffer for gathered parameters");
}

}  // namespace cleave::schedule::oracle
