#pragma once

#include <cstddef>
#include <vector>

#include "cleave/comm/communicator.h"
#include "cleave/engine/run/linked_program.h"

namespace cleave::engine {

/// The messages of one device that go straight from memory to memory: SEND, RECV and their WAIT.
///
/// A message between places with different numbers of devices travels in slices, and WAIT of a RECV
/// ends with the devices of the place gathering it from each other. They run one list, so they all
/// come to that WAIT in the same order as to the sums inside layers: whatever order of instructions
/// can complete for places can complete for devices.
class Messages {
 public:
  /// `programs`: those that will run. `place`: the devices at the same place; null: nobody else.
  Messages(const std::vector<const LinkedProgram*>& programs, comm::Communicator& world,
           comm::Communicator* place);

  void post(const LinkedInstruction& entry);
  void finish(const LinkedInstruction& wait);

  /// How many may be in flight at once.
  std::size_t at_once() const { return pending_.size(); }

 private:
  comm::Communicator& world_;
  comm::Communicator* place_;
  std::size_t slices_ = 1;  ///< of a message at most
  std::vector<comm::Pending> pending_;
};

}  // namespace cleave::engine
