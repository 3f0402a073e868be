#include <algorithm>
#include <deque>
#include <queue>
#include <utility>

#include "cleave/base/check.h"
#include "cleave/schedule/effects.h"
#include "cleave/schedule/passes/pass.h"

// Where messages go. For a tensor that X on one device makes and Y on another reads:
//
//   sender    | X SEND ............................. WAIT(send) Z
//   receiver  |      RECV V WAIT(recv) Y ... X'
//                                             \.. the message of X' is read by Z
//
//   SEND        right after X;
//   RECV        before V, the compute instruction in front of Y, so that the transfer overlaps V
//               (LowerOptions::receive_ahead looks further ahead);
//   WAIT(recv)  right before Y;
//   WAIT(send)  before Z, the first compute instruction of the sender that reads a message which
//               the receiver made at Y or later; at the end of the list if there is none. A frozen
//               stage never hears of Y: it waits for the oldest message before it would have more
//               of them on their way than passes/send_windows.cpp allows.
//
// No deadlock, even if a send completes only once its receive is posted and nothing is buffered:
// take any order of the compute instructions that respects the lists and the edges (there is one,
// or the compute itself could not run). When Y's turn comes, X is done, so its SEND is posted and
// WAIT(recv) returns. When Z's turn comes, X' and therefore Y are done, so the message has arrived
// and WAIT(send) returns. At the end of a list every Y runs some time. Hence messages add no
// constraint that the compute did not have, and a WAIT(send) never stalls a device.

namespace cleave::schedule {
namespace {

struct Message {
  int edge;
  Direction direction;
  int microbatch;  ///< as this device counts them
  OfReplica of;
  int peer;  ///< the device at the other end
};

/// Sends to one peer that are not known to be complete.
struct Outbox {
  struct Pending {
    int read_at;  ///< index of Y in the peer's list
    Message message;
    bool operator>(const Pending& other) const { return read_at > other.read_at; }
  };

  int peer;
  int heard = -1;  ///< the latest instruction of the peer whose message this device has read
  std::priority_queue<Pending, std::vector<Pending>, std::greater<>> pending = {};
};

class Writer {
 public:
  Writer(const Program& program, const Topology& topology, const ActionIndex& index,
         const std::vector<int>& windows, int device)
      : program_(program),
        topology_(topology),
        index_(index),
        windows_(windows),
        unheard_(program.edges.size()),
        device_(device) {}

  std::vector<Instruction> write(int receive_ahead) {
    const auto& list = program_.lists[device_];
    out_.reserve(list.size() * 4);
    std::size_t posted = 0;
    for (std::size_t at = 0; at < list.size(); ++at) {
      for (; posted < list.size() && posted <= at + receive_ahead; ++posted) {
        messages_read_by(list[posted]);
        for (const Message& m : messages_) emit(Op::Receive, m);
      }
      messages_read_by(list[at]);
      for (const Message& m : messages_) wait_for(m);
      for (const Message& m : messages_) settle(outbox(m.peer));
      messages_made_by(list[at]);
      for (const Message& m : messages_) make_room(m);
      out_.push_back(list[at]);
      for (const Message& m : messages_) send(m);
    }
    for (Outbox& box : outboxes_) {
      box.heard = kEverything;
      settle(box);
    }
    for (const auto& edge : unheard_)
      for (const Message& m : edge) emit(Op::Wait, m, Op::Send);
    return std::move(out_);
  }

 private:
  static constexpr int kEverything = 1 << 30;

  void messages_read_by(const Instruction& i) {
    messages_.clear();
    const Op op = topology_.acts_as(i);
    if (op == Op::Forward)
      for (int edge : topology_.incoming[i.stage]) add(edge, Direction::Forward, i, false);
    if (reads(op, Thing::OutputGradient))
      for (int edge : topology_.outgoing[i.stage]) add(edge, Direction::Backward, i, true);
  }

  void messages_made_by(const Instruction& i) {
    messages_.clear();
    if (writes(i.op, Thing::Output))
      for (int edge : topology_.outgoing[i.stage]) add(edge, Direction::Forward, i, true);
    if (writes(i.op, Thing::InputGradient))
      for (int edge : topology_.incoming[i.stage]) add(edge, Direction::Backward, i, false);
  }

  void add(int edge, Direction direction, const Instruction& i, bool peer_is_to) {
    const Edge& e = program_.edges[edge];
    const OfReplica of = topology_.of_replica(device_, i);
    if (!topology_.carries(edge, direction, of)) return;
    const int peer = program_.placement[peer_is_to ? e.to : e.from][of.replica];
    if (peer != device_) messages_.push_back({edge, direction, i.microbatch, of, peer});
  }

  void wait_for(const Message& m) {
    emit(Op::Wait, m, Op::Receive);
    const Edge& e = program_.edges[m.edge];
    const int made_at = m.direction == Direction::Forward ? index_.forward(e.from, m.of)
                                                          : index_.backward(e.to, m.of);
    Outbox& box = outbox(m.peer);
    box.heard = std::max(box.heard, made_at);
  }

  void make_room(const Message& m) {
    auto& edge = unheard_[m.edge];
    if (windows_[m.edge] == 0 || std::ssize(edge) < windows_[m.edge]) return;
    emit(Op::Wait, edge.front(), Op::Send);
    edge.pop_front();
  }

  void send(const Message& m) {
    emit(Op::Send, m);
    if (windows_[m.edge] > 0) return unheard_[m.edge].push_back(m);
    const Edge& e = program_.edges[m.edge];
    const int read_at = m.direction == Direction::Forward ? index_.forward(e.to, m.of)
                                                          : index_.backward(e.from, m.of);
    outbox(m.peer).pending.push({read_at, m});
  }

  void settle(Outbox& box) {
    for (; !box.pending.empty() && box.pending.top().read_at <= box.heard; box.pending.pop())
      emit(Op::Wait, box.pending.top().message, Op::Send);
  }

  Outbox& outbox(int peer) {
    const auto found = std::ranges::find(outboxes_, peer, &Outbox::peer);
    return found != outboxes_.end() ? *found : outboxes_.emplace_back(Outbox{.peer = peer});
  }

  void emit(Op op, const Message& m, Op completes = Op::Forward) {
    out_.push_back({.op = op,
                    .completes = completes,
                    .direction = m.direction,
                    .microbatch = m.microbatch,
                    .edge = m.edge});
  }

  const Program& program_;
  const Topology& topology_;
  const ActionIndex& index_;
  const std::vector<int>& windows_;           ///< [edge]
  std::vector<std::deque<Message>> unheard_;  ///< [edge] sends of stages that never hear back
  int device_;
  std::vector<Message> messages_;
  std::vector<Outbox> outboxes_;
  std::vector<Instruction> out_;
};

}  // namespace

Program add_communication(Program program, const LowerOptions& options) {
  require(options.receive_ahead >= 1, "a RECV must be posted at least 1 instruction ahead, got ",
          options.receive_ahead);
  const Topology topology(program);
  const ActionIndex index(program);
  const std::vector<int> windows = send_windows(program, topology);
  std::vector<std::vector<Instruction>> lists;
  lists.reserve(program.devices);
  for (int device = 0; device < program.devices; ++device)
    lists.push_back(Writer(program, topology, index, windows, device).write(options.receive_ahead));
  program.lists = std::move(lists);
  return program;
}

}  // namespace cleave::schedule
