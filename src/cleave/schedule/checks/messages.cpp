#include "cleave/schedule/checks/checks.h"

namespace cleave::schedule::checks {
namespace {

// One message with its operands, for the sentences.
struct Route {
  int edge;
  Direction direction;
  OfReplica of;
};

class MessageChecks {
 public:
  MessageChecks(Tables& tables, Findings& findings) : t_(tables), findings_(findings) {}

  void collect() {
    for (int device = 0; device < t_.program.devices; ++device) {
      const auto& list = t_.program.lists[device];
      for (std::int32_t at = 0; at < std::ssize(list); ++at)
        if (is_message(list[at])) collect(device, at, list[at]);
    }
  }

  void check(const Route& route) {
    const Edge& edge = t_.program.edges[route.edge];
    const Message& m = t_.message(route.edge, route.direction, route.of);
    const int from = endpoint(edge, Op::Send, route.direction);
    const int to = endpoint(edge, Op::Receive, route.direction);
    const int sender = t_.program.placement[from][route.of.replica];
    const int receiver = t_.program.placement[to][route.of.replica];
    check_end({sender, m.send, m.send_wait, Op::Send}, route, m.receive >= 0 ? receiver : -1);
    check_end({receiver, m.receive, m.receive_wait, Op::Receive}, route, m.send >= 0 ? sender : -1);

    const Unit& source = t_.unit(from, route.of);
    const Unit& target = t_.unit(to, route.of);
    const bool forward = route.direction == Direction::Forward;
    const Span& made = forward ? source.forward : source.input;
    const Span& used = forward ? target.forward : target.input;
    if (m.send >= 0 && !made.empty() && m.send < made.last)
      findings_.add(sender, m.send, "is posted before ", forward ? "F" : "I", " of stage ", from,
                    " (instruction ", made.last, ") made what it carries");
    if (m.receive_wait >= 0 && !used.empty() && m.receive_wait > used.first)
      findings_.add(receiver, used.first, "runs before ", text(receiver, Op::Receive, route),
                    " is waited for (instruction ", m.receive_wait, ")");
  }

 private:
  struct End {
    int device;
    std::int32_t post;
    std::int32_t wait;
    Op op;
  };

  std::string text(int device, Op op, const Route& route) const {
    return to_string(Instruction{.op = op,
                                 .direction = route.direction,
                                 .microbatch = t_.topology.on_device(device, route.of),
                                 .edge = route.edge});
  }

  void collect(int device, std::int32_t at, const Instruction& i) {
    Message& m = t_.message(i.edge, i.direction, t_.topology.of_replica(device, i));
    const Op post = i.op == Op::Wait ? i.completes : i.op;
    std::int32_t& position = i.op == Op::Wait ? (post == Op::Send ? m.send_wait : m.receive_wait)
                                              : (post == Op::Send ? m.send : m.receive);
    if (position >= 0)
      findings_.add(device, at, "is there a second time; the first is instruction ", position);
    else
      position = at;
  }

  // `peer`: the device that posts the other end, or -1 if nobody does.
  void check_end(const End& end, const Route& route, int peer) {
    if (end.post < 0) {
      if (peer >= 0)
        findings_.add(end.device, -1, text(end.device, end.op, route), " is missing; device ", peer,
                      " posts its other end");
      else
        findings_.add(end.device, -1, text(end.device, end.op, route), " is missing");
    }
    if (end.wait < 0)
      findings_.add(end.device, end.post, "the WAIT for ", text(end.device, end.op, route),
                    " is missing");
    else if (end.post > end.wait)
      findings_.add(end.device, end.wait, "comes before the post at instruction ", end.post);
  }

  Tables& t_;
  Findings& findings_;
};

}  // namespace

void check_messages(Tables& tables, Findings& findings) {
  const Program& p = tables.program;
  std::int64_t rows = 0;
  for (const std::int32_t slot : tables.slot) rows += slot >= 0;
  tables.messages.resize(rows * 2 * p.microbatches);

  MessageChecks checks(tables, findings);
  checks.collect();
  for (int edge = 0; edge < std::ssize(p.edges); ++edge)
    for (ReplicaId replica{0}; replica < p.replicas; ++replica) {
      if (!tables.crosses(edge, replica)) continue;
      for (MicrobatchId microbatch{0}; microbatch < p.microbatches; ++microbatch) {
        const OfReplica of{.replica = replica, .microbatch = microbatch};
        for (const Direction direction : {Direction::Forward, Direction::Backward})
          if (tables.topology.carries(edge, direction, of)) checks.check({edge, direction, of});
      }
      if (findings.full()) return;
    }
}

void check_local_edges(const Tables& t, Findings& findings) {
  const Program& p = t.program;
  for (int e = 0; e < std::ssize(p.edges); ++e)
    for (ReplicaId replica{0}; replica < p.replicas; ++replica) {
      if (t.crosses(e, replica)) continue;
      const Edge& edge = p.edges[e];
      const int device = p.placement[edge.from][replica];
      for (MicrobatchId microbatch{0}; microbatch < p.microbatches; ++microbatch) {
        const OfReplica of{.replica = replica, .microbatch = microbatch};
        const Unit& from = t.unit(edge.from, of);
        const Unit& to = t.unit(edge.to, of);
        if (!t.topology.carries(e, Direction::Forward, of)) continue;
        if (to.forward.first < from.forward.last)
          findings.add(device, to.forward.first, "runs before F of stage ", edge.from,
                       " (instruction ", from.forward.last, "), which feeds it");
        if (edge.backward && from.input.first < to.input.last)
          findings.add(device, from.input.first, "runs before I of stage ", edge.to,
                       " (instruction ", to.input.last, "), which feeds it");
      }
    }
}

}  // namespace cleave::schedule::checks
