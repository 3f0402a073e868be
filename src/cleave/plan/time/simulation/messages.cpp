#include "cleave/plan/time/simulation/messages.h"

#include <algorithm>
#include <utility>

#include "cleave/plan/time/copied_sends.h"
#include "cleave/schedule/effects.h"

namespace cleave::plan::simulation {

using schedule::Direction;
using schedule::Instruction;
using schedule::OfReplica;
using schedule::Op;
using schedule::Program;
using schedule::Thing;

Messages::Messages(const SimulationContext& context, Timeline& timeline, Moves& moves)
    : context_(context), timeline_(timeline), moves_(moves) {
  const Program& program = context.program;
  messages_.resize(program.edges.size() * 2 * program.replicas * program.microbatches);
  implied_.assign(program.edges.size(), true);
  for (const auto& list : program.lists)
    for (const Instruction& i : list)
      if (i.op == Op::Send || i.op == Op::Receive) implied_[i.edge] = false;
  any_implied_ = std::ranges::find(implied_, true) != implied_.end();
  for (std::size_t e = 0; e < program.edges.size(); ++e) {
    const schedule::Edge& edge = program.edges[e];
    const std::int64_t of_a_step =
        std::max(edge.forward_bytes, edge.backward_bytes) * program.microbatches;
    const bool has_credits = !context.costs.edges.empty() && context.costs.edges[e].credit > 0;
    early_.push_back(has_credits && of_a_step <= context.options.early_bytes);
    copied_.push_back(early_.back() && context.costs.edges[e].latency >= kCopiedFromLatency &&
                      std::max(edge.forward_bytes, edge.backward_bytes) <= kCopiedBytes);
    measured_on_.push_back(measured_replica(program, edge));
  }
}

Messages::Message& Messages::message(int edge, Direction direction, const OfReplica& of) {
  const Program& program = context_.program;
  const std::size_t way = direction == Direction::Forward ? 0 : 1;
  return messages_[((static_cast<std::size_t>(edge) * 2 + way) * program.replicas + of.replica) *
                       program.microbatches +
                   of.microbatch];
}

bool Messages::blocks(int device, const Instruction& instruction, double time) {
  if (instruction.op == Op::Wait) return blocks_at_wait(device, instruction, time);
  return any_implied_ && schedule::is_compute(instruction.op) &&
         blocks_at_start(device, instruction, time);
}

bool Messages::blocks_at_wait(int device, const Instruction& wait, double time) {
  const bool sender = wait.completes == Op::Send;
  if (sender && copied_[wait.edge]) return false;
  Message& m = message(wait.edge, wait.direction, context_.topology.of_replica(device, wait));
  return blocks_on(device, m, sender ? m.sender_waits : m.receiver_waits, time);
}

bool Messages::blocks_at_start(int device, const Instruction& instruction, double time) {
  const OfReplica of = context_.topology.of_replica(device, instruction);
  const auto arrives = [&](const std::vector<int>& edges, Direction direction) {
    return std::ranges::any_of(edges, [&](int e) {
      if (!implied_[e] || !context_.topology.carries(e, direction, of)) return false;
      Message& m = message(e, direction, of);
      return blocks_on(device, m, m.receiver_waits, time);
    });
  };
  const int stage = instruction.stage;
  const Op op = context_.topology.acts_as(instruction);
  if (op == Op::Forward && instruction.segment <= 0)
    return arrives(context_.topology.incoming[stage], Direction::Forward);
  if (reads(op, Thing::OutputGradient) &&
      (instruction.segment < 0 || instruction.segment == context_.program.segments[stage] - 1))
    return arrives(context_.topology.outgoing[stage], Direction::Backward);
  return false;
}

bool Messages::blocks_on(int device, const Message& m, int& waiter, double time) {
  if (m.arrival != kNotYet && m.arrival <= time) return false;
  if (m.arrival == kNotYet)
    waiter = device;
  else
    timeline_.wake(device, m.arrival);
  return true;
}

void Messages::post(int device, const Instruction& instruction, double time) {
  const OfReplica of = context_.topology.of_replica(device, instruction);
  Message& m = message(instruction.edge, instruction.direction, of);
  const auto& links = context_.costs.edges;
  const double credit = links.empty() ? 0 : links[instruction.edge].credit;
  if (instruction.op == Op::Send)
    m.sent = moves_.out(device, instruction, time);
  else
    m.received = time;
  if (early_[instruction.edge]) {
    if (instruction.op == Op::Send) transfer(m, instruction, of, m.sent);
    return;
  }
  if (m.sent != kNotYet && m.received != kNotYet)
    transfer(m, instruction, of, std::max(m.sent, m.received + credit));
}

void Messages::post_implied(int device, const Instruction& instruction, double time) {
  if (!any_implied_) return;
  const bool forward = writes(instruction.op, Thing::Output);
  if (!forward && !writes(instruction.op, Thing::InputGradient)) return;
  const int last_piece = forward ? context_.program.segments[instruction.stage] - 1 : 0;
  if (instruction.segment >= 0 && instruction.segment != last_piece) return;

  const Direction direction = forward ? Direction::Forward : Direction::Backward;
  const OfReplica of = context_.topology.of_replica(device, instruction);
  for (const int e : forward ? context_.topology.outgoing[instruction.stage]
                             : context_.topology.incoming[instruction.stage]) {
    if (!implied_[e] || !context_.topology.carries(e, direction, of)) continue;
    const Instruction send{
        .op = Op::Send, .direction = direction, .microbatch = instruction.microbatch, .edge = e};
    transfer(message(e, direction, of), send, of, time);
  }
}

int Messages::from_of(const Instruction& send, int replica) const {
  const schedule::Edge& edge = context_.program.edges[send.edge];
  return context_.program
      .placement[send.direction == Direction::Forward ? edge.from : edge.to][replica];
}

int Messages::to_of(const Instruction& send, int replica) const {
  const schedule::Edge& edge = context_.program.edges[send.edge];
  return context_.program
      .placement[send.direction == Direction::Forward ? edge.to : edge.from][replica];
}

// The sender has the message and the receiver's credit at `time`.
void Messages::transfer(Message& m, Instruction send, const OfReplica& of, double time) {
  const Program& program = context_.program;
  send.op = Op::Send;
  const int from = from_of(send, of.replica), to = to_of(send, of.replica);
  if (from == to || context_.costs.edges.empty()) return arrive(m, send, of, time, time);
  const schedule::Edge& edge = program.edges[send.edge];
  const LinkCosts& link = context_.costs.edges[send.edge];
  const std::int64_t bytes =
      send.direction == Direction::Forward ? edge.forward_bytes : edge.backward_bytes;
  if (context_.options.links != Links::Serialised)
    return arrive(m, send, of, time, time + link.seconds(bytes));

  const auto key = [&](int a, int b) { return static_cast<std::int64_t>(a) * program.devices + b; };
  Allowance& own = links_[key(from, to)];
  const double begin = std::max(time, own.free_at(link.per_byte, link.burst));
  const double end = own.pass(time, static_cast<double>(bytes), link.per_byte, link.burst);
  if (link.shared_per_byte == 0) return arrive(m, send, of, begin, end + link.latency);

  const int measured_on = measured_on_[send.edge];
  shared_.add(key(from_of(send, measured_on), to_of(send, measured_on)), link,
              {.number = static_cast<int>(on_the_way_.size()),
               .sender = from,
               .bytes = bytes,
               .ready = time});
  on_the_way_.push_back({.message = &m, .send = send, .of = of, .own_end = end});
}

void Messages::advance() {
  const std::optional<SharedWays::Passed> passed = shared_.advance();
  if (!passed) return;
  const OnTheWay& load = on_the_way_[passed->number];
  const double latency = context_.costs.edges[load.send.edge].latency;
  arrive(*load.message, load.send, load.of, passed->begin,
         std::max(passed->end, load.own_end) + latency);
}

// The message is known to be at the receiver at `arrival`.
void Messages::arrive(Message& m, Instruction send, const OfReplica& of, double begin,
                      double arrival) {
  const int from = from_of(send, of.replica), to = to_of(send, of.replica);
  m.arrival = arrival;
  if (context_.options.record == Record::All && m.arrival > begin) {
    send.microbatch = context_.topology.on_device(from, of);
    timeline_.add(from, SpanKind::Transfer, begin, m.arrival, send);
    timeline_.trace.spans.back().peer = to;
  }
  if (from != to) {
    send.microbatch = context_.topology.on_device(to, of);
    m.arrival = moves_.in(to, send, m.arrival);
  }
  for (int* waiter : {&m.sender_waits, &m.receiver_waits})
    if (*waiter >= 0) timeline_.wake(std::exchange(*waiter, -1), m.arrival);
}

}  // namespace cleave::plan::simulation
