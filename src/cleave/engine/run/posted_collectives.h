#pragma once

#include <cstddef>
#include <span>

#include "cleave/engine/run/collections.h"
#include "cleave/engine/run/linked_program.h"
#include "cleave/engine/stage/gradient_sync.h"
#include "cleave/engine/stage/parameter_sync.h"
#include "cleave/tensor/arena.h"

namespace cleave::engine {

/// REDUCE, GATHER, REFRESH and COLLECT of one device: what replicas post, and a WAIT completes.
/// Where no message reaches the device's memory, each passes through its place in the host's.
class PostedCollectives {
 public:
  struct Parts {
    GradientSync* sums = nullptr;
    ParameterSync* values = nullptr;
    Collections* collections = nullptr;
    Memory* memory = nullptr;  ///< the device's
    Arena* host = nullptr;     ///< null: nothing passes through it
  };

  explicit PostedCollectives(const Parts& parts) : parts_(parts) {}

  /// In a step, which takes its place in the host's memory and gives it back.
  void post(const LinkedInstruction& entry);
  void finish(const LinkedInstruction& wait);

  /// To the end, outside of a step.
  void carry_out(const LinkedInstruction& entry);

  /// REFRESH of all stages to the end, with the places that `program` has for it, if it has.
  void refresh_all(const LinkedProgram& program, int stages);

 private:
  std::span<std::byte> on_host(const LinkedInstruction& entry) const;
  void start(const LinkedInstruction& entry);
  void complete(schedule::Op op, const schedule::Instruction& named);

  Parts parts_;
};

}  // namespace cleave::engine
