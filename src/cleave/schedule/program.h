#pragma once

#include <algorithm>
#include <compare>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace cleave::schedule {

/// What an instruction does. The letters and words are its text form.
enum class Op : std::uint8_t {
  Forward,         ///< F: y from x
  BackwardInput,   ///< I: dx from dy; on the critical path
  BackwardWeight,  ///< W: adds dw; may run much later
  Backward,        ///< B: I then W; yields dx at its end
  Recompute,       ///< R: F once more, to bring back what was not kept
  Send,            ///< SEND: posts a message to the stage at the other end of the edge
  Receive,         ///< RECV: posts the buffer that a message will fill
  Wait,            ///< WAIT: until what was posted is complete
  Gather,          ///< GATHER: posts that the parameters of a segment become whole (ZeRO 3)
  Free,            ///< FREE: gives the gathered parameters back
  Reduce,          ///< REDUCE: posts the sum of a segment's gradients over its replicas
  Tie,             ///< TIE: adds up the gradients of a weight that has two uses
  Norm,            ///< NORM: the global gradient norm
  Step,            ///< STEP: the optimizer update of a segment, or of all stages of this device
  Refresh,         ///< REFRESH: posts that replicas send each other what each updated (ZeRO 1, 2)
  Collect,         ///< COLLECT: posts that x of a segment comes together, of the whole step
  Out,             ///< OUT: posts that what is kept, state or a message leaves the device's memory
  In,              ///< IN: posts that what is kept, state or a message comes back
};
inline constexpr int kOps = static_cast<int>(Op::In) + 1;

/// Activations travel forward along an edge, gradients backward.
enum class Direction : std::uint8_t { Forward, Backward };

/// One instruction of one device. Fields that an op does not use stay -1.
struct Instruction {
  Op op = Op::Forward;
  Op completes = Op::Forward;                ///< WAIT only: what posted it
  Direction direction = Direction::Forward;  ///< messages
  /// The stage of F I W B R GATHER FREE REDUCE REFRESH COLLECT OUT IN; -1 in a STEP means all.
  std::int32_t stage = -1;
  std::int32_t segment = -1;  ///< -1: the whole stage
  /// The microbatch of F I W B R OUT IN and messages, counted on its device: Topology::of_replica.
  /// OUT and IN of optimizer state have none.
  std::int32_t microbatch = -1;
  /// An index into Program::edges for messages and OUT and IN of one, into ties for TIE.
  std::int32_t edge = -1;

  friend auto operator<=>(const Instruction&, const Instruction&) = default;
};

/// A tensor that flows from one stage to another, any two; its gradient flows back.
struct Edge {
  int from = 0;
  int to = 0;
  std::int64_t forward_bytes = 0;
  std::int64_t backward_bytes = 0;
  bool backward = true;  ///< false: nothing flows back (labels)

  friend auto operator<=>(const Edge&, const Edge&) = default;
};

/// A weight with two uses, in one stage or in two: TIE adds the gradient of `second`'s to
/// `first`'s.
struct Tie {
  int first = 0;
  int second = 0;
  std::int64_t bytes = 0;

  friend auto operator<=>(const Tie&, const Tie&) = default;
};

/// What the replicas of a stage hold only a share of; each includes those before it.
enum class Sharing : std::uint8_t {
  Nothing,
  State,      ///< optimizer state (ZeRO 1): REFRESH after STEP
  Gradients,  ///< sums of gradients as well (ZeRO 2)
  Values,     ///< parameters as well (ZeRO 3): GATHER before each use, FREE after it
};

/// What the backward pass of a stage comes to.
enum class GradientKind : std::uint8_t {
  Full,        ///< I and W, or B
  InputOnly,   ///< I: it is frozen, but something before it learns
  WeightOnly,  ///< W: it learns, and nothing before it does
  None,        ///< neither: nothing up to here learns
};

/// A stage that has no part in a microbatch, of every replica or of one. A gradient sum to which no
/// W of a replica has anything to add is zero there when REDUCE, or without one NORM, reads it.
struct Absence {
  static constexpr std::int32_t kEveryReplica = -1;

  std::int32_t stage = 0;
  std::int32_t microbatch = 0;
  std::int32_t replica = kEveryReplica;

  friend auto operator<=>(const Absence&, const Absence&) = default;
};

/// A segment that reads the y of another one: of its own stage, or of the stage that an edge comes
/// from.
struct SegmentRead {
  std::int32_t stage = 0;
  std::int32_t segment = 0;
  std::int32_t from = 0;   ///< the segment that is read
  std::int32_t edge = -1;  ///< that brings it; -1: it is of the same stage
  Op until = Op::Forward;  ///< the last pass that reads it: F, I or W

  friend auto operator<=>(const SegmentRead&, const SegmentRead&) = default;
};

enum class BufferKind : std::uint8_t {
  Weights,           ///< of a stage, whole step
  Gradients,         ///< of a stage, whole step
  Optimizer,         ///< of a stage, whole step
  KeptForInput,      ///< what F (or R) keeps for I
  KeptForWeight,     ///< what F (or R) keeps for W
  KeptForRecompute,  ///< what F keeps for R
  Recomputed,        ///< what R brings back for W, where F keeps the rest
  InputKept,         ///< what I keeps for W; inside a B, what passes between its halves
  SegmentInput,      ///< y of the segment before this one, for it or later ones of its stage
  SegmentGradient,   ///< dy of a segment, written by the I of those that read it in its stage
  Arriving,   ///< filled by a RECV, by a stage of the same device, or (edge -1) by the stage itself
  Leaving,    ///< written by F or I and sent by a SEND; edge -1: y that stays (the loss)
  Gathered,   ///< whole parameters of a segment, from GATHER to FREE
  Sums,       ///< whole gradients of a segment whose replicas keep shares: first W to WAIT:REDUCE
  Share,      ///< what this device keeps of them, from REDUCE on
  Reducing,   ///< what a REDUCE adds up in, until its WAIT
  Collected,  ///< what a COLLECT brings together, until the last I that reads it
  Scratch,    ///< of the kernels; one per device, whole step
  ReturnedForInput,   ///< what was kept for I and came back: from IN on
  ReturnedForWeight,  ///< the same, for W
  Outside,            ///< what OUT has moved, until IN has brought it back; in the device's outside
  FetchedState,       ///< optimizer state for STEP: from IN to the WAIT of its OUT
  StoredState,        ///< where it is between steps; whole step, in the device's outside
  ArrivingOnHost,     ///< what RECV fills and IN brings to an Arriving buffer; in the host's memory
  LeavingOnHost,      ///< what OUT fills from a Leaving buffer and SEND sends; in the host's memory
  // What collectives of a device pass through in the host's memory, each from its post to its WAIT.
  ReducingOnHost,
  GatheringOnHost,
  RefreshingOnHost,
  CollectingOnHost,
  ScratchOnHost,  ///< what TIE and sums inside layers pass through; one per device, whole step
};

/// A piece of a device's memory, or of its outside: memory of the host or a disk, which nothing but
/// OUT and IN reaches and whose offsets are counted from its own begin; or of the host's memory
/// that its messages and sums pass through, the same way. Lives from instruction `first` up to and
/// including `last` of its device's list; static buffers from 0 to the end.
struct Buffer {
  BufferKind kind = BufferKind::Scratch;
  std::int32_t device = 0;
  std::int32_t stage = -1;  ///< owner, for all but scratch and messages over an edge
  std::int32_t edge = -1;   ///< Arriving, Leaving
  Direction direction = Direction::Forward;
  std::int32_t microbatch = -1;
  std::int32_t segment = -1;
  std::int64_t bytes = 0;
  std::int32_t first = 0;
  std::int32_t last = 0;
  std::int64_t offset = -1;  ///< -1 until planned

  friend auto operator<=>(const Buffer&, const Buffer&) = default;
};

/// Every instruction of one training step, in order, for every device.
///
/// Plain data: no tensors, no clock, no idle padding. The verifier, the memory planner, the
/// simulator, the executor and the pictures all read this one value.
struct Program {
  std::string schedule;  ///< the rule that made it: "1f1b"
  int stages = 0;
  int devices = 0;
  int replicas = 1;      ///< data-parallel copies of the pipeline
  int microbatches = 0;  ///< per replica
  /// [stage][replica] -> device. A device may stand for several neighbouring replicas of its
  /// stages: it holds one copy of the weights and runs the microbatches of all of them.
  std::vector<std::vector<int>> placement;
  std::vector<int> segments;  ///< [stage] -> how many segments
  std::vector<Edge> edges;
  std::vector<Tie> ties;
  std::vector<Sharing> sharing;         ///< [stage]; empty: nothing is shared
  std::vector<GradientKind> gradients;  ///< [stage]; empty: all full
  std::vector<Absence> absent;          ///< ascending; everybody else takes part
  /// Who reads what, where segments form no chain. Empty: each reads the one before it, the first
  /// of a stage what its edges bring, and what leaves is of the last.
  std::vector<SegmentRead> reads;
  /// Ascending: stages whose last segment runs once per step. Its F read what COLLECT has brought
  /// together of all microbatches and replicas, in the order of their numbers.
  std::vector<int> collecting;
  /// Ascending: devices whose memory no message can reach. There OUT stands right before each SEND,
  /// which begins once it has moved, and IN right after each RECV, which moves what has arrived;
  /// the WAIT of the message completes both.
  std::vector<int> through_host;
  std::vector<std::vector<Instruction>> lists;  ///< [device]
  std::vector<Buffer> buffers;                  ///< empty until the memory planner ran
  std::vector<std::int64_t> budgets;            ///< [device] bytes; empty: no limit
  std::vector<std::int64_t> outside_budgets;    ///< [device] bytes outside; empty: no limit

  friend bool operator==(const Program&, const Program&) = default;
};

/// "F", "SEND", "STEP": the word of the text form.
std::string_view name_of(Op op);

/// The reads of an edge, or (edge -1) of segment `from` inside a stage, ascending by segment; as a
/// chain has them where the program names none.
std::vector<SegmentRead> reads_of_edge(const Program& program, int edge);
std::vector<SegmentRead> reads_inside(const Program& program, int stage, int from);

/// The segment of its stage that an edge carries the y of.
int maker_of(const Program& program, int edge);

/// F, I, W, B or R: what takes a device's time.
constexpr bool is_compute(Op op) {
  return op <= Op::Recompute;
}

/// SEND, RECV, or the WAIT for one of them.
constexpr bool is_message(const Instruction& i) {
  const Op post = i.op == Op::Wait ? i.completes : i.op;
  return post == Op::Send || post == Op::Receive;
}

/// OUT, IN, or the WAIT for one of them, of what F keeps or of optimizer state.
constexpr bool is_move(const Instruction& i) {
  const Op post = i.op == Op::Wait ? i.completes : i.op;
  return (post == Op::Out || post == Op::In) && i.edge < 0;
}

/// OUT or IN of a message, between a device's memory and the host's.
constexpr bool is_message_move(const Instruction& i) {
  return (i.op == Op::Out || i.op == Op::In) && i.edge >= 0;
}

/// The same of optimizer state: IN before STEP, OUT after it.
constexpr bool is_state_move(const Instruction& i) {
  return is_move(i) && i.microbatch < 0;
}

/// True if the buffer lies outside of its device's memory.
constexpr bool is_outside(const Buffer& buffer) {
  return buffer.kind == BufferKind::Outside || buffer.kind == BufferKind::StoredState;
}

/// True if it lies in the memory of the host that messages and sums pass through.
constexpr bool is_on_host(const Buffer& buffer) {
  return buffer.kind >= BufferKind::ArrivingOnHost;
}

/// True if it is a message there.
constexpr bool is_message_on_host(const Buffer& buffer) {
  return buffer.kind == BufferKind::ArrivingOnHost || buffer.kind == BufferKind::LeavingOnHost;
}

/// True if a collective passes through it there.
constexpr bool is_exchange_on_host(const Buffer& buffer) {
  return buffer.kind >= BufferKind::ReducingOnHost && buffer.kind <= BufferKind::CollectingOnHost;
}

/// What a collective that replicas post passes through on the host.
constexpr BufferKind on_host_of(Op collective) {
  return collective == Op::Reduce    ? BufferKind::ReducingOnHost
         : collective == Op::Gather  ? BufferKind::GatheringOnHost
         : collective == Op::Refresh ? BufferKind::RefreshingOnHost
                                     : BufferKind::CollectingOnHost;
}

/// Whether the messages and sums of a device pass through the host's memory.
bool passes_through_host(const Program& program, int device);

/// "2F0" (stage, op, microbatch), "2.1F0" (its segment 1), "SEND:3>0" (edge 3 forward, microbatch
/// 0), "WAIT:RECV:3<0" (backward), "REDUCE:2", "WAIT:GATHER:2.1", "OUT:2.1@0" (what F of it
/// kept), "OUT:2.1" (its optimizer state), "OUT:3>0" (what SEND:3>0 carries), "TIE:0", "NORM",
/// "STEP", "STEP:2.1".
std::string to_string(const Instruction& instruction);

/// Over all devices.
std::int64_t instruction_count(const Program& program);

/// True if the lists hold F, I, W, B and R only: what a generator emits or a person writes, before
/// lowering.
bool is_compute_only(const Program& program);

/// What replicas share of a stage.
inline Sharing sharing_of(const Program& program, int stage) {
  return program.sharing.empty() ? Sharing::Nothing : program.sharing[stage];
}

/// The devices that hold a stage, each once, in the order of the replicas that they stand for.
std::vector<int> holders_of(const Program& program, int stage);

/// Whether the last segment of a stage runs once per step.
bool collects(const Program& program, int stage);

inline GradientKind gradients_of(const Program& program, int stage) {
  return program.gradients.empty() ? GradientKind::Full : program.gradients[stage];
}

/// True if stages of this kind run I, or B.
constexpr bool makes_input_gradient(GradientKind kind) {
  return kind == GradientKind::Full || kind == GradientKind::InputOnly;
}

/// True if stages of this kind run W, or B.
constexpr bool makes_weight_gradient(GradientKind kind) {
  return kind == GradientKind::Full || kind == GradientKind::WeightOnly;
}

/// A microbatch as the replica counts it that it belongs to.
struct OfReplica {
  int replica = 0;
  int microbatch = 0;
};

/// What a program's header implies, computed once: who holds what, who feeds whom.
class Topology {
 public:
  explicit Topology(const Program& program);

  /// Which microbatch an instruction of a device names. A device counts those of the first replica
  /// that it stands for, then those of the next.
  OfReplica of_replica(int device, int microbatch) const {
    return {replica[device] + microbatch / microbatches_, microbatch % microbatches_};
  }
  int on_device(int device, const OfReplica& of) const {
    return (of.replica - replica[device]) * microbatches_ + of.microbatch;
  }

  /// How many microbatches a device runs in a step, as far as its stages are present.
  int microbatches(int device) const { return replicas[device] * microbatches_; }

  /// How many devices hold the stages of a device, and which of them it is.
  int holders(int device) const {
    return replicas[device] == 0 ? 0 : static_cast<int>(replicas_) / replicas[device];
  }
  int rank(int device) const { return replica[device] / std::max(1, replicas[device]); }

  /// Whether a stage takes part in a microbatch of a replica.
  bool present(int stage, const OfReplica& of) const {
    return absent_.empty() || !absent_[slot(stage, of)];
  }

  /// Whether an edge carries this microbatch in this direction: both its ends are present, and
  /// something flows back if that is the question.
  bool carries(int edge, Direction direction, const OfReplica& of) const {
    const auto& [from, to, back] = edges_[edge];
    return (direction == Direction::Forward || back) && present(from, of) && present(to, of);
  }

  /// W of a stage in which nothing flows further back reads dy itself: it does what a B does.
  Op acts_as(const Instruction& i) const {
    return i.op == Op::BackwardWeight && weight_only_[i.stage] ? Op::Backward : i.op;
  }

  std::vector<int> replica;                ///< [device] the first it stands for, -1: no stage
  std::vector<int> replicas;               ///< [device] how many it stands for, 0: no stage
  std::vector<std::vector<int>> stages;    ///< [device] -> its stages, ascending
  std::vector<std::vector<int>> incoming;  ///< [stage] -> edges that end there, ascending
  std::vector<std::vector<int>> outgoing;  ///< [stage] -> edges that begin there, ascending

 private:
  struct Joint {
    int from;
    int to;
    bool backward;
  };

  std::size_t slot(int stage, const OfReplica& of) const {
    const std::size_t row = static_cast<std::size_t>(stage) * replicas_ + of.replica;
    return row * static_cast<std::size_t>(microbatches_) + of.microbatch;
  }

  std::size_t replicas_;
  int microbatches_;
  std::vector<Joint> edges_;
  std::vector<bool> absent_;       ///< [slot]; empty: none is
  std::vector<char> weight_only_;  ///< [stage]
};

}  // namespace cleave::schedule
