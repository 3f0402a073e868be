#include "cleave/plan/simulator.h"

#include <algorithm>
#include <deque>
#include <map>
#include <queue>
#include <tuple>
#include <unordered_map>
#include <utility>

#include "cleave/base/check.h"

namespace cleave::plan {

using schedule::Direction;
using schedule::Instruction;
using schedule::Op;
using schedule::Program;

namespace {

constexpr double kNotYet = -1;

// One message of one microbatch over one edge of one replica.
struct Message {
  double sent = kNotYet;      // when its SEND was posted
  double received = kNotYet;  // when its RECV was posted
  double arrival = kNotYet;
  int sender_waits = -1;  // device blocked on it, or -1
  int receiver_waits = -1;
};

struct Collective {
  int arrived = 0;
  std::vector<int> waiting;
};

class Simulation {
 public:
  Simulation(const Program& program, const Costs& costs, const SimulateOptions& options)
      : program_(program),
        costs_(costs),
        options_(options),
        topology_(program),
        devices_(program.devices),
        messages_(program.edges.size() * 2 * program.replicas * program.microbatches),
        implied_(program.edges.size(), true) {
    for (const auto& list : program.lists)
      for (const Instruction& i : list)
        if (i.op == Op::Send || i.op == Op::Receive) implied_[i.edge] = false;
  }

  Trace run() {
    trace_.name = program_.schedule;
    trace_.unit = costs_.unit;
    trace_.devices = program_.devices;
    trace_.spans.reserve(span_bound());
    for (int d = 0; d < program_.devices; ++d) wake(d, 0);
    while (!events_.empty() || !running_.empty()) {
      if (advance_running()) continue;
      const auto [time, device] = events_.top();
      events_.pop();
      let_run_until(time);
      resume(device, time);
    }
    require_finished();
    return std::move(trace_);
  }

 private:
  struct Device {
    std::size_t next = 0;      // instruction to start
    bool computing = false;    // instruction next - 1 has a span that ends now
    double blocked_since = 0;  // start of the wait in front of instruction `next`
    bool blocked = false;
    bool gathering = false;  // in collective next - 1, whose members are not all there
    // How often this device has entered each collective, so that the n-th times meet.
    std::map<std::tuple<Op, int, int>, int> entered;
  };

  using Event = std::pair<double, int>;  // (time, device); ties by device, so runs repeat exactly

  std::size_t span_bound() const {
    std::size_t bound = 0;
    for (const auto& list : program_.lists) bound += list.size() + list.size() / 4;
    return bound;
  }

  void wake(int device, double time) { events_.push({time, device}); }

  // ── Devices that share cores (options_.at_once > 0) ──
  //
  // A device keeps its core until it blocks, or until its slice is over and others wait for one.

  struct Computing {
    int device = 0;
    double left = 0;         // seconds
    double begin = kNotYet;  // when it first had a core
    double used = 0;         // of its slice
    Instruction instruction = {};
  };

  void let_run_until(double time) {
    for (Computing& each : running_) {
      each.left -= time - now_;
      each.used += time - now_;
    }
    now_ = time;
  }

  // Until the end of the computation, or of the slice.
  double horizon(const Computing& each) const {
    const double slice = ready_.empty() ? each.left : options_.slice - each.used;
    return std::max(0.0, std::min(each.left, slice));
  }

  // True if the next thing to happen was the end of a computation or of a slice.
  bool advance_running() {
    if (running_.empty()) return false;
    const auto horizon_of = [&](const Computing& each) { return horizon(each); };
    const auto first = std::ranges::min_element(running_, {}, horizon_of);
    const double time = now_ + horizon(*first);
    if (!events_.empty() && events_.top().first < time) return false;
    const bool ends = first->left <= horizon(*first);
    let_run_until(time);
    Computing each = *first;
    running_.erase(first);
    if (ends) {
      add_span(each.device, span_kind(each.instruction.op), each.begin, time, each.instruction);
      going_on_ = &each;
      resume(each.device, time);
      going_on_ = nullptr;
    } else {
      each.used = 0;
      ready_.push_back(each);
    }
    fill_cores();
    return true;
  }

  void compute(int device, double length, const Instruction& instruction) {
    Computing each{.device = device, .left = length, .instruction = instruction};
    if (going_on_ == nullptr) {
      ready_.push_back(each);
      return fill_cores();
    }
    each.begin = now_;
    each.used = going_on_->used;
    running_.push_back(each);
  }

  void fill_cores() {
    while (!ready_.empty() &&
           std::ssize(running_) < std::max(1, static_cast<int>(options_.at_once))) {
      running_.push_back(ready_.front());
      ready_.pop_front();
      if (running_.back().begin == kNotYet) running_.back().begin = now_;
    }
  }

  Message& message(int edge, Direction direction, int replica, int microbatch) {
    const std::size_t way = direction == Direction::Forward ? 0 : 1;
    return messages_[((static_cast<std::size_t>(edge) * 2 + way) * program_.replicas + replica) *
                         program_.microbatches +
                     microbatch];
  }

  // Goes on with a device at `time` until it blocks or starts something that takes time.
  void resume(int d, double time) {
    Device& device = devices_[d];
    const std::vector<Instruction>& list = program_.lists[d];
    if (device.computing) {
      device.computing = false;
      post_implied(d, list[device.next - 1], time);
    }
    while (device.next < list.size()) {
      const Instruction& instruction = list[device.next];
      if (blocks(d, instruction, time)) return;
      end_wait(d, instruction, time);
      ++device.next;
      if (start(d, instruction, time)) return;
    }
  }

  // True if the device must stop in front of `instruction`; whatever it waits for will wake it.
  bool blocks(int d, const Instruction& instruction, double time) {
    if (instruction.op == Op::Wait) {
      Message& m = message(instruction.edge, instruction.direction, topology_.replica[d],
                           instruction.microbatch);
      const bool sender = instruction.completes == Op::Send;
      return blocks_on(d, m, sender ? m.sender_waits : m.receiver_waits, time);
    }
    const auto arrives = [&](const std::vector<int>& edges, Direction direction) {
      return std::ranges::any_of(edges, [&](int e) {
        if (!implied_[e]) return false;
        if (direction == Direction::Backward && !program_.edges[e].backward) return false;
        Message& m = message(e, direction, topology_.replica[d], instruction.microbatch);
        return blocks_on(d, m, m.receiver_waits, time);
      });
    };
    const int stage = instruction.stage;
    if (instruction.op == Op::Forward && instruction.segment <= 0)
      return arrives(topology_.incoming[stage], Direction::Forward);
    if ((instruction.op == Op::BackwardInput || instruction.op == Op::Backward) &&
        (instruction.segment < 0 || instruction.segment == program_.segments[stage] - 1))
      return arrives(topology_.outgoing[stage], Direction::Backward);
    return false;
  }

  bool blocks_on(int d, const Message& m, int& waiter, double time) {
    if (m.arrival != kNotYet && m.arrival <= time) return false;
    if (!devices_[d].blocked) {
      devices_[d].blocked = true;
      devices_[d].blocked_since = time;
    }
    if (m.arrival == kNotYet)
      waiter = d;
    else
      wake(d, m.arrival);
    return true;
  }

  void end_wait(int d, const Instruction& instruction, double time) {
    Device& device = devices_[d];
    if (device.blocked && device.blocked_since < time)
      add_span(d, SpanKind::Wait, device.blocked_since, time, instruction);
    device.blocked = false;
  }

  // Starts `instruction`; true if the device is then occupied and will be woken.
  bool start(int d, const Instruction& instruction, double time) {
    switch (instruction.op) {
      case Op::Send:
      case Op::Receive:
        post(d, instruction, time);
        return false;
      case Op::Wait:
      case Op::Free:
        return false;
      case Op::Gather:
      case Op::Reduce:
      case Op::Tie:
      case Op::Norm:
        enter_collective(d, instruction, time);
        return true;
      default:
        break;
    }
    const double length = duration(program_, costs_, d, instruction);
    devices_[d].computing = true;
    if (options_.at_once > 0) {
      compute(d, length, instruction);
      return true;
    }
    add_span(d, span_kind(instruction.op), time, time + length, instruction);
    wake(d, time + length);
    return true;
  }

  void post(int d, const Instruction& instruction, double time) {
    Message& m = message(instruction.edge, instruction.direction, topology_.replica[d],
                         instruction.microbatch);
    (instruction.op == Op::Send ? m.sent : m.received) = time;
    if (m.sent != kNotYet && m.received != kNotYet)
      transfer(m, instruction, topology_.replica[d], time);
  }

  // The messages that `instruction` gives rise to at its end, where the program does not say so.
  void post_implied(int d, const Instruction& instruction, double time) {
    const bool forward = instruction.op == Op::Forward;
    const bool backward = instruction.op == Op::BackwardInput || instruction.op == Op::Backward;
    if (!forward && !backward) return;
    const int last_piece = forward ? program_.segments[instruction.stage] - 1 : 0;
    if (instruction.segment >= 0 && instruction.segment != last_piece) return;

    const Direction direction = forward ? Direction::Forward : Direction::Backward;
    const int replica = topology_.replica[d];
    for (const int e :
         forward ? topology_.outgoing[instruction.stage] : topology_.incoming[instruction.stage]) {
      if (!implied_[e] || (backward && !program_.edges[e].backward)) continue;
      const Instruction send{
          .op = Op::Send, .direction = direction, .microbatch = instruction.microbatch, .edge = e};
      transfer(message(e, direction, replica, instruction.microbatch), send, replica, time);
    }
  }

  // Both ends are ready at `time`.
  void transfer(Message& m, Instruction send, int replica, double time) {
    const schedule::Edge& edge = program_.edges[send.edge];
    const bool forward = send.direction == Direction::Forward;
    const int from = program_.placement[forward ? edge.from : edge.to][replica];
    const int to = program_.placement[forward ? edge.to : edge.from][replica];
    double begin = time;
    double length = 0;
    if (from != to) {
      if (!costs_.edges.empty()) {
        const LinkCosts& link = costs_.edges[send.edge];
        const std::int64_t bytes = forward ? edge.forward_bytes : edge.backward_bytes;
        length = link.latency + static_cast<double>(bytes) * link.per_byte;
      }
      if (options_.links == Links::Serialised) {
        double& free_at = busy_until_[static_cast<std::int64_t>(from) * program_.devices + to];
        begin = std::max(begin, free_at);
        free_at = begin + length;
      }
      send.op = Op::Send;
      if (options_.record == Record::All && length > 0) {
        add_span(from, SpanKind::Transfer, begin, begin + length, send);
        trace_.spans.back().peer = to;
      }
    }
    m.arrival = begin + length;
    for (int* waiter : {&m.sender_waits, &m.receiver_waits})
      if (*waiter >= 0) wake(std::exchange(*waiter, -1), m.arrival);
  }

  int members(const Instruction& instruction) const {
    switch (instruction.op) {
      case Op::Norm:
        return program_.devices;
      case Op::Tie: {
        const schedule::Tie& tie = program_.ties[instruction.edge];
        return program_.placement[tie.first][0] == program_.placement[tie.second][0] ? 1 : 2;
      }
      default:
        return program_.replicas;
    }
  }

  void enter_collective(int d, const Instruction& instruction, double time) {
    const bool tie = instruction.op == Op::Tie;
    const int which = tie ? instruction.edge : instruction.stage;
    const int turn = devices_[d].entered[{instruction.op, which, instruction.segment}]++;
    // Replicas tie among themselves; the other collectives run across them.
    const int group = tie ? topology_.replica[d] : 0;
    Collective& collective =
        collectives_[{instruction.op, which, instruction.segment, group, turn}];

    devices_[d].blocked_since = time;
    devices_[d].gathering = true;
    collective.waiting.push_back(d);
    if (++collective.arrived < members(instruction)) return;
    for (const int member : collective.waiting) {
      const double end = time + duration(program_, costs_, member, instruction);
      const double since = devices_[member].blocked_since;
      if (since < time) add_span(member, SpanKind::Wait, since, time, instruction);
      add_span(member, SpanKind::Collective, time, end, instruction);
      devices_[member].gathering = false;
      wake(member, end);
    }
    collective.waiting.clear();
  }

  void add_span(int d, SpanKind kind, double begin, double end, const Instruction& instruction) {
    trace_.spans.push_back(
        {.device = d, .kind = kind, .begin = begin, .end = end, .instruction = instruction});
  }

  void require_finished() const {
    for (int d = 0; d < program_.devices; ++d) {
      const auto& list = program_.lists[d];
      const std::size_t at = devices_[d].next - (devices_[d].gathering ? 1 : 0);
      if (at == list.size()) continue;
      throw UserError(detail::concat("the program deadlocks: device ", d, " waits for ever at ",
                                     schedule::to_string(list[at]), " (instruction ", at, " of ",
                                     list.size(), "); `cleave verify` prints the cycle"));
    }
  }

  const Program& program_;
  const Costs& costs_;
  SimulateOptions options_;
  schedule::Topology topology_;
  std::vector<Device> devices_;
  std::vector<Message> messages_;
  std::vector<bool> implied_;  // [edge]
  std::map<std::tuple<Op, int, int, int, int>, Collective> collectives_;
  std::unordered_map<std::int64_t, double> busy_until_;  // (from, to) -> when its link is free
  std::priority_queue<Event, std::vector<Event>, std::greater<>> events_;

  // Empty unless devices share cores.
  std::vector<Computing> running_;
  std::deque<Computing> ready_;
  const Computing* going_on_ = nullptr;  // has just ended; its device goes on, on the same core
  double now_ = 0;                       // up to when running_ has been advanced
  Trace trace_;
};

}  // namespace

Trace simulate(const Program& program, const Costs& costs, const SimulateOptions& options) {
  check(program, costs);
  return Simulation(program, costs, options).run();
}

}  // namespace cleave::plan
