#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "cleave/comm/communicator.h"
#include "cleave/engine/run/linked_program.h"
#include "cleave/tensor/memory.h"

namespace cleave::engine {

/// COLLECT: what a segment that runs once per step reads of every microbatch, brought together in
/// the order of their numbers. Replica r has microbatches [r · microbatches, (r + 1) ·
/// microbatches) of the step.
class Collections {
 public:
  /// `replicas[s]`: those that hold stage s; all must outlive this.
  Collections(const schedule::Program& program, std::span<Stage* const> stages,
              std::span<comm::Communicator* const> replicas);

  void collect(const LinkedInstruction& entry, Memory& memory, std::span<std::byte> on_host);
  void finish(int stage);

 private:
  std::vector<comm::Communicator*> replicas_;  ///< [stage]
  std::vector<comm::Pending> pending_;         ///< [stage]
  std::vector<std::size_t> borders_;
};

}  // namespace cleave::engine
