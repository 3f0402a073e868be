#pragma once

#include <compare>
#include <cstdint>
#include <iosfwd>
#include <string>
#include <string_view>

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

/// "F", "SEND", "STEP": the word of the text form.
std::string_view name_of(Op op);

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

/// "2F0" (stage, op, microbatch), "2.1F0" (its segment 1), "SEND:3>0" (edge 3 forward, microbatch
/// 0), "WAIT:RECV:3<0" (backward), "REDUCE:2", "WAIT:GATHER:2.1", "OUT:2.1@0" (what F of it
/// kept), "OUT:2.1" (its optimizer state), "OUT:3>0" (what SEND:3>0 carries), "TIE:0", "NORM",
/// "STEP", "STEP:2.1".
std::string to_string(const Instruction& instruction);
std::ostream& operator<<(std::ostream& out, const Instruction& instruction);

}  // namespace cleave::schedule
