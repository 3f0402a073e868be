#pragma once

#include <bitset>
#include <cstdint>
#include <vector>

#include "cleave/schedule/checks/read_index.h"
#include "cleave/schedule/program.h"

namespace cleave::schedule::checks {

/// Positions in a device's list, first and last; -1: none.
struct Span {
  std::int32_t first = -1;
  std::int32_t last = -1;

  bool empty() const { return first < 0; }

  /// Positions come in ascending order.
  void add(std::int32_t position) {
    if (empty()) first = position;
    last = position;
  }
};

/// All work of one stage on one microbatch of one replica. One device runs it, so that positions
/// compare.
struct Unit {
  Span forward, input, weight, recompute;
  std::int32_t forward_done = 0;        ///< segments, from the first on
  std::int32_t input_done = 0;          ///< segments, from the last on
  std::int32_t weight_done = 0;         ///< segments, in any order
  std::int32_t recompute_done = 0;      ///< segments, in any order
  bool input_and_weight_apart = false;  ///< some segment has I and W, not B
};

/// One tensor of one microbatch on its way between two devices: positions of the four instructions.
struct Message {
  std::int32_t send = -1;
  std::int32_t send_wait = -1;
  std::int32_t receive = -1;
  std::int32_t receive_wait = -1;
};

/// A collective that replicas post, from its post to its WAIT.
struct Posting {
  Op op = Op::Reduce;
  std::int32_t segment = -1;
  std::int32_t post = -1;
  std::int32_t wait = -1;
};

/// What F of a stage or segment keeps of a microbatch, on its way out and back: positions of the
/// four instructions.
struct Move {
  std::int64_t unit = 0;
  std::int32_t segment = -1;
  std::int32_t out = -1;
  std::int32_t out_wait = -1;
  std::int32_t in = -1;
  std::int32_t in_wait = -1;
};

/// Optimizer state of a stage or segment on its way in and back: positions of the four
/// instructions.
struct StateMove {
  std::int32_t device = -1;
  std::int32_t stage = -1;
  std::int32_t segment = -1;
  std::int32_t in = -1;
  std::int32_t in_wait = -1;
  std::int32_t out = -1;
  std::int32_t out_wait = -1;
};

/// An instruction that names its segment.
struct SegmentPosition {
  std::uint64_t key = 0;  ///< unit, segment, op; see Tables::piece_key
  std::int32_t position = -1;
};

/// What the instructions of a program name, found in one walk.
struct Mentions {
  explicit Mentions(const Program& sane);

  std::vector<int> segments;  ///< [stage] how many are told apart: 1 where no instruction names one
  std::bitset<kOps> ops;      ///< of instructions and of what WAITs complete
};

/// Where everything is, as flat arrays. Built for a program whose header and operands are sane;
/// the checks fill it in, each one relying on those before it.
struct Tables {
  Tables(const Program& sane, Mentions mentions);

  bool mentions(Op op) const { return ops[static_cast<std::size_t>(op)]; }
  bool moves_anything() const { return mentions(Op::Out) || mentions(Op::In); }

  std::int64_t unit_index(int stage, const OfReplica& of) const {
    const std::int64_t row = static_cast<std::int64_t>(stage) * program.replicas + of.replica;
    return row * program.microbatches + of.microbatch;
  }
  Unit& unit(int stage, const OfReplica& of) { return units[unit_index(stage, of)]; }
  const Unit& unit(int stage, const OfReplica& of) const { return units[unit_index(stage, of)]; }

  /// Index of segment 0 in arrays over (stage, replica, segment). What a device has once for all
  /// replicas that it stands for is that of the first.
  std::int64_t segment_index(StageId stage, ReplicaId replica) const;

  bool crosses(int edge, ReplicaId replica) const {
    return slot[edge * program.replicas + replica] >= 0;
  }
  std::int64_t message_index(int edge, Direction direction, const OfReplica& of) const {
    const std::int64_t row = slot[static_cast<std::int64_t>(edge) * program.replicas + of.replica];
    return (row * 2 + static_cast<int>(direction)) * program.microbatches + of.microbatch;
  }
  Message& message(int edge, Direction direction, const OfReplica& of) {
    return messages[message_index(edge, direction, of)];
  }
  const Message& message(int edge, Direction direction, const OfReplica& of) const {
    return messages[message_index(edge, direction, of)];
  }

  static std::uint64_t piece_key(std::int64_t unit, int segment, Op op);

  /// From the REDUCE that names this segment (-1: the stage as a whole) to its WAIT; empty: none.
  Span reduction(StageId stage, ReplicaId replica, SegmentId segment) const;

  /// From the first W of a segment to its last, of all microbatches of the device that runs this
  /// replica; of the whole stage where instructions do not tell it apart. Empty: there is none.
  Span weights_of(StageId stage, ReplicaId replica, SegmentId segment) const;

  /// Which posting of the stage the WAIT at this position of the replica's list completes.
  std::size_t completed_by(StageId stage, ReplicaId replica, std::int32_t wait) const;

  const std::vector<Posting>& posted(StageId stage, ReplicaId replica) const {
    return postings[static_cast<std::size_t>(stage) * program.replicas + replica];
  }

  /// The first microbatch from this one on in which the stage takes part on this replica; their
  /// number if none.
  int next_present(int stage, OfReplica from) const;

  /// Whether it takes part in any microbatch of any replica.
  bool takes_part(int stage) const;

  /// Position of `op` on this segment of the unit, where instructions name it; -1 otherwise.
  std::int32_t piece_position(std::int64_t unit, int segment, Op op) const;

  /// How what F of this segment (-1: the stage as a whole) keeps moves; null: it does not.
  const Move* move(std::int64_t unit, int segment) const;

  /// How the optimizer state of this segment (-1: the whole stage) moves; null: it does not.
  const StateMove* state_move(DeviceId device, StageId stage, SegmentId segment) const;

  const Program& program;
  Topology topology;
  ReadIndex reads;
  std::vector<int> segments;  ///< as in Mentions
  std::bitset<kOps> ops;      ///< as in Mentions
  std::vector<Unit> units;
  std::vector<Span> weights;               ///< [stage * replicas + replica] all W of a device
  std::vector<std::int32_t> first_weight;  ///< [segment_index + segment] position of its first W
  std::vector<std::int32_t> last_weight;   ///< [segment_index + segment] position of the last W
  std::vector<std::int32_t> reduced;       ///< [segment_index + segment] position of the REDUCE
  std::vector<std::int32_t> summed;        ///< [segment_index + segment] position of its WAIT
  std::vector<std::int32_t> stepped;       ///< [segment_index + segment] position of its STEP
  std::vector<std::vector<Posting>> postings;  ///< [stage * replicas + replica] as posted
  std::vector<SegmentPosition> pieces;         ///< sorted
  std::vector<std::int32_t> slot;  ///< [edge * replicas + replica], -1: both ends on one device
  std::vector<Message> messages;
  std::vector<Move> moves;             ///< by unit and segment
  std::vector<StateMove> state_moves;  ///< by device, stage and segment

 private:
  std::vector<std::int64_t> first_segment_;  ///< [stage] sum of `segments` of the stages before
};

/// The stage at this end of an edge: who posts SEND (or RECV) in this direction.
inline int endpoint(const Edge& edge, Op post, Direction direction) {
  return (post == Op::Send) == (direction == Direction::Forward) ? edge.from : edge.to;
}

}  // namespace cleave::schedule::checks
