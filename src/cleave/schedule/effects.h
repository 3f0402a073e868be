#pragma once

#include <array>
#include <cstdint>
#include <string_view>

#include "cleave/schedule/program.h"

namespace cleave::schedule {

/// What instructions read and write.
enum class Thing : std::uint16_t {
  Input = 1 << 0,           ///< x of a stage: what its edges bring, or what it loads
  Output = 1 << 1,          ///< y of a stage, and what the backward will need of F
  OutputGradient = 1 << 2,  ///< dy
  InputGradient = 1 << 3,   ///< dx, and what W will need of I
  Values = 1 << 4,          ///< parameters, whole
  Gradients = 1 << 5,       ///< of parameters: the sums of a step
  Collected = 1 << 6,       ///< x of a segment that runs once per step, of all microbatches
};

/// Several of them.
class Things {
 public:
  constexpr Things() = default;
  constexpr Things(Thing thing)
      : bits_(static_cast<std::uint16_t>(thing)) {}  // NOLINT: a set of one
  constexpr bool has(Thing thing) const { return (bits_ & static_cast<unsigned>(thing)) != 0; }
  friend constexpr Things operator|(Things a, Things b) {
    a.bits_ = static_cast<std::uint16_t>(a.bits_ | b.bits_);
    return a;
  }

 private:
  std::uint16_t bits_ = 0;
};

constexpr Things operator|(Thing a, Thing b) {
  return Things(a) | Things(b);
}

/// What an instruction names.
enum class Operand : std::uint8_t {
  Pass,     ///< a stage, perhaps a segment, and a microbatch
  Message,  ///< an edge, a direction and a microbatch
  Stage,    ///< a stage, perhaps a segment
  Kept,     ///< what F of a stage or segment keeps of a microbatch; without one: optimizer state;
            ///< or a message, which completes it
  Tie,
  Update,  ///< a stage, perhaps a segment; or all stages of the device
  Nothing,
};

/// Which devices an instruction needs besides its own.
enum class Members : std::uint8_t {
  Alone,
  Pair,      ///< the one at the other end of the edge
  Replicas,  ///< those that hold the stage
  Tied,      ///< the two of one replica that hold a weight; one, if it has both uses
  All,
};

/// All that anybody may rely on about an instruction: verifier, memory planner, simulator, executor
/// and emulator read this table.
struct Effects {
  std::string_view word;  ///< of the text form
  Operand operand = Operand::Nothing;
  Things reads = {};
  Things writes = {};
  Members members = Members::Alone;
  /// It ends at the WAIT that completes it, once all members have posted theirs. Otherwise it is
  /// over when the next instruction begins, and blocks until its members have come.
  bool posts = false;
};

/// The table, in the order of Op.
inline constexpr std::array<Effects, kOps> kEffects = {{
    {.word = "F",
     .operand = Operand::Pass,
     .reads = Thing::Input | Thing::Values | Thing::Collected,
     .writes = Thing::Output},
    {.word = "I",
     .operand = Operand::Pass,
     .reads = Thing::OutputGradient | Thing::Output | Thing::Values | Thing::Collected,
     .writes = Thing::InputGradient},
    {.word = "W",
     .operand = Operand::Pass,
     .reads = Thing::Output | Thing::InputGradient,
     .writes = Thing::Gradients},
    {.word = "B",
     .operand = Operand::Pass,
     .reads = Thing::OutputGradient | Thing::Output | Thing::Values | Thing::Collected,
     .writes = Thing::InputGradient | Thing::Gradients},
    {.word = "R", .operand = Operand::Pass, .reads = Thing::Input | Thing::Values},
    {.word = "SEND", .operand = Operand::Message, .members = Members::Pair, .posts = true},
    {.word = "RECV", .operand = Operand::Message, .members = Members::Pair, .posts = true},
    {.word = "WAIT"},
    {.word = "GATHER",
     .operand = Operand::Stage,
     .writes = Thing::Values,
     .members = Members::Replicas,
     .posts = true},
    {.word = "FREE", .operand = Operand::Stage, .writes = Thing::Values},
    {.word = "REDUCE",
     .operand = Operand::Stage,
     .reads = Thing::Gradients,
     .writes = Thing::Gradients,
     .members = Members::Replicas,
     .posts = true},
    {.word = "TIE",
     .operand = Operand::Tie,
     .reads = Thing::Gradients,
     .writes = Thing::Gradients,
     .members = Members::Tied},
    {.word = "NORM", .reads = Thing::Gradients, .members = Members::All},
    {.word = "STEP",
     .operand = Operand::Update,
     .reads = Thing::Gradients,
     .writes = Thing::Values},
    {.word = "REFRESH",
     .operand = Operand::Stage,
     .reads = Thing::Values,
     .writes = Thing::Values,
     .members = Members::Replicas,
     .posts = true},
    {.word = "COLLECT",
     .operand = Operand::Stage,
     .reads = Thing::Input,
     .writes = Thing::Collected,
     .members = Members::Replicas,
     .posts = true},
    {.word = "OUT", .operand = Operand::Kept, .reads = Thing::Output, .posts = true},
    {.word = "IN", .operand = Operand::Kept, .posts = true},
}};
static_assert(kEffects.back().word == "IN");

/// WAIT has the effects of what it completes: ask for those of `subject`.
constexpr const Effects& effects(Op op) {
  return kEffects.at(static_cast<std::size_t>(op));
}

/// What the instruction is about: itself, or for a WAIT what it completes.
constexpr Op subject(const Instruction& i) {
  return i.op == Op::Wait ? i.completes : i.op;
}

constexpr bool reads(Op op, Thing thing) {
  return effects(op).reads.has(thing);
}

constexpr bool writes(Op op, Thing thing) {
  return effects(op).writes.has(thing);
}

/// GATHER, REDUCE, REFRESH or COLLECT: replicas post it, and a WAIT completes it.
constexpr bool is_posted_collective(Op op) {
  return effects(op).posts && effects(op).members == Members::Replicas;
}

}  // namespace cleave::schedule
