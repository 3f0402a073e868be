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
    if (layout_->through_host(d)) {
      demand_beside(d, at_[d] - 1, Op::Out, i);
      read(carried(d, BufferKind::LeavingOnHost, i.edge, i.direction, i.microbatch), 1);
    }
    m.sent = true;
  } else {
    if (layout_->through_host(d)) {
      demand_beside(d, at_[d] + 1, Op::In, i);
      touch(carried(d, BufferKind::ArrivingOnHost, i.edge, i.direction, i.microbatch));
    }
    demand(!m.received, "RECV twice");
    const int buffer = carried(d, BufferKind::Arriving, i.edge, i.direction, i.microbatch);
    touch(buffer);
    if (buffer >= 0) memory_[buffer].in_flight = true;
    m.received = true;
  }
}

// At a position of the list stands what `like` is, but for its op.
void Machine::demand_beside(int d, int at, Op op, const Instruction& like) const {
  const auto& list = layout_->program.lists[d];
  Instruction wanted = like;
  wanted.op = op;
  demand(0 <= at && at < static_cast<int>(list.size()) && list[at] == wanted,
         "a message that does not pass through the host");
}

void Machine::move_message(int d, const Instruction& i) {
  demand(layout_->through_host(d), "messages reach this device");
  if (i.op == Op::In) return demand_beside(d, at_[d] - 1, Op::Receive, i);
  demand_beside(d, at_[d] + 1, Op::Send, i);
  read(carried(d, BufferKind::Leaving, i.edge, i.direction, i.microbatch), 1);
  write(carried(d, BufferKind::LeavingOnHost, i.edge, i.direction, i.microbatch), 1);
}

bool Machine::wait(int d, const Instruction& i) {
  if (i.completes == Op::Out || i.completes == Op::In) {
    wait_move(d, i);
    return true;
  }
  if (i.completes != Op::Send && i.completes != Op::Receive) return wait_collective(d, i);
  Mail& m = mail(d, i);
  if (i.completes == Op::Send) {
    demand(m.sent && !m.send_done, "WAIT for no SEND");
    if (!m.received) return false;
    read(carried(d, BufferKind::Leaving, i.edge, i.direction, i.microbatch), 1);
    if (layout_->through_host(d))
      read(carried(d, BufferKind::LeavingOnHost, i.edge, i.direction, i.microbatch), 1);
    m.send_done = true;
  } else {
    demand(m.received && !m.receive_done, "WAIT for no RECV");
    if (!m.sent) return false;
    const int buffer = carried(d, BufferKind::Arriving, i.edge, i.direction, i.microbatch);
    if (buffer >= 0) memory_[buffer].in_flight = false;
    write(buffer, 1);
    if (layout_->through_host(d))
      touch(carried(d, BufferKind::ArrivingOnHost, i.edge, i.direction, i.microbatch));
    m.receive_done = true;
  }
  return true;
}

std::vector<Machine::Posting>& Machine::postings(int replica, int stage) {
  return postings_[stage * layout_->program.replicas + replica];
}

// Replicas match what they post by its number, so they must agree on what comes when.
void Machine::post_collective(int d, const Instruction& i) {
  const Program& p = layout_->program;
  const int replica = layout_->replica(d);
  auto& posted = postings(replica, i.stage);
  for (const Posting& other : posted)
    demand(other.done || other.op != i.op || other.segment != i.segment, "posts again");
  for (int r = 0; r < p.replicas; ++r)
    if (const auto& theirs = postings(r, i.stage); theirs.size() > posted.size())
      demand(theirs[posted.size()].op == i.op && theirs[posted.size()].segment == i.segment,
             "replicas post different things");
  posted.push_back({i.op, i.segment});
  posted.back().on_host = passing_on_host(d, i.op, i);

  if (i.op == Op::Gather) {
    Mask& gathered = gathered_[d * p.stages + i.stage];
    const Mask in_the_way = i.segment < 0 ? ~Mask{0} : kWhole | bit(i.segment);
    demand(!(gathered & in_the_way), "gathers again");
    gathered |= i.segment < 0 ? kWhole : bit(i.segment);
    coming_[d * p.stages + i.stage] |= i.segment < 0 ? kWhole : bit(i.segment);
    hold_gathered(d, i);
  } else if (i.op == Op::Reduce) {
    demand(!normed_[d] && !stepped_[d], "REDUCE after NORM or STEP");
    for (const int k : pieces(i)) {
      Gradient& g = gradient(replica, i.stage, k);
      demand(g.reduced++ == 0, "reduces again");
      g.posted = g.contributions;
      g.in_flight = true;
    }
    for (const BufferKind kind : {BufferKind::Sums, BufferKind::Share, BufferKind::Reducing})
      touch(kept(d, kind, i, i.segment));
    shares_[d].push_back(kept(d, BufferKind::Share, i, i.segment));
    for (std::size_t t = 0; t < p.ties.size(); ++t) {
      const Tie& tie = p.ties[t];
      if (tie.first == i.stage || tie.second == i.stage)
        demand(tied_[t * p.replicas + replica].times == 0, "REDUCE after TIE");
    }
  } else if (i.op == Op::Collect) {
    post_collection(d, i);
  } else {
    demand(updated_[d * layout_->program.stages + i.stage] == all(i.stage),
           "something is not updated yet");
    demand(refreshed_[d * p.stages + i.stage]++ == 0, "refreshes again");
  }
}

bool Machine::wait_collective(int d, const Instruction& i) {
  const Program& p = layout_->program;
  auto& posted = postings(layout_->replica(d), i.stage);
  const auto mine = std::ranges::find_if(posted, [&](const Posting& other) {
    return !other.done && other.op == i.completes && other.segment == i.segment;
  });
  demand(mine != posted.end(), "WAIT for what is not posted");
  const std::size_t number = mine - posted.begin();
  for (int r = 0; r < p.replicas; ++r)
    if (layout_->leads(i.stage, r) && postings(r, i.stage).size() <= number) return false;
  mine->done = true;
  touch(mine->on_host);

  if (i.completes == Op::Gather) {
    coming_[d * p.stages + i.stage] &= ~(i.segment < 0 ? kWhole : bit(i.segment));
  } else if (i.completes == Op::Reduce) {
    for (const BufferKind kind : {BufferKind::Sums, BufferKind::Reducing})
      touch(kept(d, kind, i, i.segment));
    for (const int k : pieces(i)) {
      Gradient& g = gradient(layout_->replica(d), i.stage, k);
      std::ranges::fill(g.contributions, 0);
      for (int r = 0; r < p.replicas; ++r)
        for (std::size_t c = 0; c < g.contributions.size() && layout_->leads(i.stage, r); ++c)
          g.contributions[c] =
              static_cast<std::uint8_t>(g.contributions[c] + gradient(r, i.stage, k).posted[c]);
      g.in_flight = false;
    }
  } else if (i.completes == Op::Collect) {
    write(kept(d, BufferKind::Collected, i, i.segment), 1);
    ++collected_[d * p.stages + i.stage];
  } else {
    ++refreshed_[d * p.stages + i.stage];
  }
  return true;
}

// It takes along what the last segment reads of every microbatch, so all of that is made.
void Machine::post_collection(int d, const Instruction& i) {
  const Program& p = layout_->program;
  demand(collected_[d * p.stages + i.stage]++ == 0, "collects again");
  const Mask before = all(i.stage) >> 1;
  for (int m = 0; m < layout_->cells(d); ++m) {
    Instruction of_microbatch = i;
    of_microbatch.microbatch = m;
    if (before == 0) inputs_there(d, of_microbatch, Direction::Forward);
    demand((unit(d, i.stage, m).forward & before) == before, "collects what is not made");
  }
  touch(kept(d, BufferKind::Collected, i, i.segment));
}

// The last segment of a stage that collects reads what came of all microbatches and replicas.
void Machine::use_collected(int d, const Instruction& i, int segment) const {
  const Program& p = layout_->program;
  const bool last = segment + 1 == p.segments[i.stage];
  if (!layout_->collects(i.stage) || !last || messages_ == Messages::Implied) return;
  demand(collected_[d * p.stages + i.stage] == 2, "runs before what it reads is collected");
  read(kept(d, BufferKind::Collected, i, layout_->collected_segment(i.stage)), 1);
}

std::vector<int> Machine::members(int d, const Instruction& i) const {
  const Program& p = layout_->program;
  std::set<int> who;
  if (i.op == Op::Norm)
    for (int device = 0; device < p.devices; ++device) who.insert(device);
  else
    who = {p.placement[p.ties[i.edge].first][layout_->replica(d)],
           p.placement[p.ties[i.edge].second][layout_->replica(d)]};
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
  }
  conclude(who, i);
  for (const int member : who) {
    joined_[member] = 0;
    end_instruction(member);
  }
  return true;
}

void Machine::join(int d, const Instruction& i) {
  demand(!normed_[d] && !stepped_[d], "TIE or NORM after NORM or STEP");
  if (i.op == Op::Norm) {
    check_gradients(d);
    normed_[d] = 1;
    return;
  }
  for (const int stage :
       {layout_->program.ties[i.edge].first, layout_->program.ties[i.edge].second})
    for (int k = 0; k < layout_->program.segments[stage] && layout_->holds(d, stage); ++k)
      demand(!gradient(layout_->replica(d), stage, k).in_flight, "TIE of a sum on its way");
}

void Machine::conclude(const std::vector<int>& who, const Instruction& i) {
  if (i.op != Op::Tie) return;
  const Program& p = layout_->program;
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

}  // namespace cleave::schedule::oracle
