#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "cleave/comm/communicator.h"
#include "cleave/engine/run/linked_program.h"
#include "cleave/engine/run/mover.h"
#include "cleave/tensor/arena.h"

namespace cleave::engine {

/// The messages of one device that pass through the host's memory: OUT and SEND, RECV and IN. Each
/// travels in one piece.
///
/// The mover copies beside what the device computes. A SEND goes on its way when its OUT is over,
/// an IN begins when its RECV is complete: whoever calls look() now and then sees to that.
class HostMessages {
 public:
  /// When a SEND may go on its way: as soon as somebody looks, or, where the device may be held up
  /// inside what it computes, before SEND itself is over.
  enum class Sending : std::uint8_t { WhenMoved, AtOnce };

  /// `moves`: OUT and IN of a program at most; 0: nothing passes here. `memory` is the device's.
  HostMessages(std::size_t moves, std::size_t slots, Memory& memory, Arena* host,
               comm::Communicator& world, Sending sending);

  /// Also after a step that was broken off. Who has the host's arena gives back what messages had
  /// of it.
  void begin_step();

  void out(const LinkedInstruction& entry);
  void send(const LinkedInstruction& entry);
  void receive(const LinkedInstruction& entry);
  void in(const LinkedInstruction& entry);

  /// Moves on what can go on without waiting.
  void look();

  /// Sends all that is to be sent: a device that waits for others must not keep them waiting.
  void flush();

  /// The WAIT of a message; when its OUT or IN was under way.
  Mover::Times finish(const LinkedInstruction& wait);

  /// OUT or IN at once, outside of a step.
  Mover::Times carry_out(const LinkedInstruction& entry);

 private:
  enum class Phase : std::uint8_t { Idle, MovingOut, Sent, Receiving, MovingIn };

  struct Flight {
    Phase phase = Phase::Idle;
    comm::Pending pending;
    std::uint64_t move = 0;                   ///< what the mover calls it
    const LinkedInstruction* next = nullptr;  ///< the SEND or IN that follows; null: not posted yet
  };

  void start_send(Flight& flight);
  void start_in(Flight& flight);

  Arena* host_;
  comm::Communicator& world_;
  Sending sending_;
  std::unique_ptr<Mover> mover_;  ///< null: nothing passes here
  std::vector<Flight> flights_;   ///< [slot]
};

}  // namespace cleave::engine
