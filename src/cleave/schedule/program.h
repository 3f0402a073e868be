#pragma once

#include <algorithm>
#include <compare>
#include <cstdint>
#include <string>
#include <vector>

#include "cleave/base/id.h"
#include "cleave/schedule/buffer.h"
#include "cleave/schedule/instruction.h"

namespace cleave::schedule {

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

/// The reads of an edge, or (edge -1) of segment `from` inside a stage, ascending by segment; as a
/// chain has them where the program names none.
std::vector<SegmentRead> reads_of_edge(const Program& program, int edge);
std::vector<SegmentRead> reads_inside(const Program& program, StageId stage, SegmentId from);

/// The segment of its stage that an edge carries the y of.
int maker_of(const Program& program, int edge);

/// Whether the messages and sums of a device pass through the host's memory.
bool passes_through_host(const Program& program, int device);

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

/// How instructions and buffers name that segment: by its number, or by -1 if there is no other.
inline int collecting_segment(const Program& program, int stage) {
  return program.segments[stage] > 1 ? program.segments[stage] - 1 : -1;
}

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
  ReplicaId replica{0};
  MicrobatchId microbatch{0};
};

/// What a program's header implies, computed once: who holds what, who feeds whom.
class Topology {
 public:
  explicit Topology(const Program& program);

  /// Which microbatch an instruction of a device names. A device counts those of the first replica
  /// that it stands for, then those of the next.
  OfReplica of_replica(DeviceId device, MicrobatchId microbatch) const {
    OfReplica of{.replica = replica[device], .microbatch = microbatch};
    if (microbatch < microbatches_) return of;  // most devices stand for one: spare them a division
    of.replica = ReplicaId{of.replica + microbatch / microbatches_};
    of.microbatch = MicrobatchId{microbatch % microbatches_};
    return of;
  }
  OfReplica of_replica(int device, const Instruction& i) const {
    return of_replica(DeviceId{device}, MicrobatchId{i.microbatch});
  }
  OfReplica of_replica(const Buffer& buffer) const {
    return of_replica(DeviceId{buffer.device}, MicrobatchId{buffer.microbatch});
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

  std::vector<ReplicaId> replica;          ///< [device] the first it stands for, -1: no stage
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
