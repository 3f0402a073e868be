#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "cleave/engine/run/linked_program.h"
#include "cleave/engine/run/mover.h"
#include "cleave/tensor/arena.h"

namespace cleave::engine {

/// Carries out OUT and IN of one device's list, and says what is in use outside.
class Moves {
 public:
  /// `outside` may be null if nothing moves. `memory` is the device's.
  Moves(const LinkedProgram& linked, Memory& memory, Arena* outside);

  /// Also after a step that was broken off.
  void begin_step();

  void post(const LinkedInstruction& entry);
  Mover::Times finish(const LinkedInstruction& wait);

  /// OUT or IN at once, outside of a step: nothing is said to be in use.
  Mover::Times carry_out(const LinkedInstruction& entry);

 private:
  Arena* outside_;
  std::unique_ptr<Mover> mover_;       ///< null: nothing moves
  std::vector<std::uint64_t> moving_;  ///< [slot] what the mover calls it
  std::vector<Block> resting_;         ///< in use outside between steps too
};

}  // namespace cleave::engine
