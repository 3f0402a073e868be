#include <algorithm>
#include <set>

#include "schedule/oracle/machine.h"

// What devices do together: messages, collectives, and the gradients that come of it.

namespace cleave::schedule::oracle {

void Machine::post(int d, const Instruction& i) {
  const Edge& edge = layout_->program.edges[i.edge];
  Mail& m = mail(d, i);
  const bool forward = i.direction == Direction::Forward;
  if (i.op == Op::Send) {
    const int maker = forward ? edge.from : edge.to;
    const Unit& made = unit(d, maker, i.microbatch);
    demand((forward ? made.forward : made.input) == all(maker), "sends what was not made");
    demand(!m.sent, "SEND twice");
    read(carried(d, BufferKind::Leaving, i.edge, i.direction, i.microbatch), 1);
    m.sent = true;
  } else {
    demand(!m.received, "RECV twice");
    const int buffer = carried(d, BufferKind::Arriving, i.edge, i.direction, i.microbatch);
    touch(buffer);
    if (buffer >= 0) memory_[buffer].in_flight = true;
    m.received = true;
  }
}

bool Machine::wait(int d, const Instruction& i) {
  Mail& m = mail(d, i);
  if (i.completes == Op::Send) {
    demand(m.sent && !m.send_done, "WAIT for no SEND");
    if (!m.received) return false;
    read(carried(d, BufferKind::Leaving, i.edge, i.direction, i.microbatch), 1);
    m.send_done = true;
  } else {
    demand(m.received && !m.receive_done, "WAIT for no RECV");
    if (!m.sent) return false;
    const int buffer = carried(d, BufferKind::Arriving, i.edge, i.direction, i.microbatch);
    if (buffer >= 0) memory_[buffer].in_flight = false;
    write(buffer, 1);
    m.receive_done = true;
  }
  return true;
}

std::vector<int> Machine::members(int d, const Instruction& i) const {
  const Program& p = layout_->program;
  std::set<int> who;
  if (i.op == Op::Norm)
    for (int device = 0; device < p.devices; ++device) who.insert(device);
  else if (i.op == Op::Tie)
    who = {p.placement[p.ties[i.edge].first][layout_->replica(d)],
           p.placement[p.ties[i.edge].second][layout_->replica(d)]};
  else
    who.insert(p.placement[i.stage].begin(), p.placement[i.stage].end());
  return {who.begin(), who.end()};
}

// All members stand at the same instruction, then all go on.
bool Machine::collective(int d, const Instruction& i) {
  join(d, i);
  joined_[d] = 1;
  const std::vector<int> who = members(d, i);
  for (const int member : who) {
    const auto& list = layout_->program.lists[member];
    if (!joined_[member]) return false;
    const Instruction& other = list[at_[member]];
    if (other.op != i.op) return false;
    if (i.op == Op::Tie && other.edge != i.edge) return false;
    const bool of_stage = i.op == Op::Gather || i.op == Op::Reduce;
    if (of_stage && (other.stage != i.stage || other.segment != i.segment)) return false;
  }
  conclude(who, i);
  for (const int member : who) {
    joined_[member] = 0;
    end_instruction(member);
  }
  return true;
}

void Machine::join(int d, const Instruction& i) {
  const int replica = layout_->replica(d);
  if (i.op == Op::Gather) {
    Mask& gathered = gathered_[d * layout_->program.stages + i.stage];
    const Mask in_the_way = i.segment < 0 ? ~Mask{0} : kWhole | bit(i.segment);
    demand(!(gathered & in_the_way), "gathers again");
    gathered |= i.segment < 0 ? kWhole : bit(i.segment);
    hold_gathered(d, i);
  } else if (i.op == Op::Reduce) {
    for (const int k : pieces(i))
      demand(gradient(replica, i.stage, k).reduced++ == 0, "reduces again");
    demand(!normed_[d] && !stepped_[d], "REDUCE after NORM or STEP");
    for (const BufferKind kind : {BufferKind::Sums, BufferKind::Share, BufferKind::Reducing})
      touch(kept(d, kind, i, i.segment));
    shares_[d].push_back(kept(d, BufferKind::Share, i, i.segment));
    for (std::size_t t = 0; t < layout_->program.ties.size(); ++t) {
      const Tie& tie = layout_->program.ties[t];
      if (tie.first == i.stage || tie.second == i.stage)
        demand(tied_[t * layout_->program.replicas + replica].times == 0, "REDUCE after TIE");
    }
  } else if (i.op == Op::Tie) {
    demand(!normed_[d] && !stepped_[d], "TIE after NORM or STEP");
  } else if (i.op == Op::Norm) {
    demand(!normed_[d] && !stepped_[d], "NORM again or after STEP");
    check_gradients(d);
    normed_[d] = 1;
  }
}

void Machine::conclude(const std::vector<int>& who, const Instruction& i) {
  const Program& p = layout_->program;
  if (i.op == Op::Reduce) {
    for (const int k : pieces(i)) {
      std::vector<std::uint8_t> sum(p.replicas * p.microbatches, 0);
      for (int r = 0; r < p.replicas; ++r)
        for (std::size_t c = 0; c < sum.size(); ++c)
          sum[c] = static_cast<std::uint8_t>(sum[c] + gradient(r, i.stage, k).contributions[c]);
      for (int r = 0; r < p.replicas; ++r) gradient(r, i.stage, k).contributions = sum;
    }
  } else if (i.op == Op::Tie) {
    const int replica = layout_->replica(who[0]);
    TiedGradient& tied = tied_[i.edge * p.replicas + replica];
    ++tied.times;
    tied.contributions.clear();
    for (const int stage : {p.ties[i.edge].first, p.ties[i.edge].second})
      for (int k = 0; k < p.segments[stage]; ++k) {
        const auto& from = gradient(replica, stage, k).contributions;
        tied.contributions.insert(tied.contributions.end(), from.begin(), from.end());
      }
  }
}

void Machine::free_parameters(int d, const Instruction& i) {
  Mask& gathered = gathered_[d * layout_->program.stages + i.stage];
  const Mask mine = i.segment < 0 ? kWhole : bit(i.segment);
  demand(gathered & mine, "frees what is not gathered");
  gathered &= ~mine;
  for (auto& [key, buffer] : holding_)
    if (key == std::vector<int>{d, i.stage, i.segment}) {
      touch(buffer);
      key = {};
    }
}

// Every weight of the device has all contributions, each once.
void Machine::check_gradients(int d) const {
  const Program& p = layout_->program;
  const auto complete = [](const std::vector<std::uint8_t>& contributions) {
    return std::ranges::all_of(contributions, [](std::uint8_t times) { return times == 1; });
  };
  const int replica = layout_->replica(d);
  for (const int stage : layout_->stages(d)) {
    int reduced = 0;
    for (int k = 0; k < p.segments[stage]; ++k) {
      demand(complete(gradient(replica, stage, k).contributions), "an incomplete gradient");
      reduced += gradient(replica, stage, k).reduced;
    }
    demand(reduced == 0 || reduced == p.segments[stage], "a gradient reduced in part");
    for (std::size_t t = 0; t < p.ties.size(); ++t) {
      if (p.ties[t].first != stage && p.ties[t].second != stage) continue;
      const TiedGradient& tied = tied_[t * p.replicas + replica];
      demand(tied.times == 1 && complete(tied.contributions), "an incomplete tied gradient");
    }
  }
}

void Machine::step_weights(int d) {
  demand(!stepped_[d], "STEP again");
  demand(normed_[d] || !layout_->has_norm(), "STEP before NORM");
  check_gradients(d);
  stepped_[d] = 1;
}

}  // namespace cleave::schedule::oracle
