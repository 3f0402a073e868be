#pragma once

#include <cstdint>
#include <map>
#include <tuple>
#include <vector>

#include "cleave/plan/time/simulation/simulation_context.h"
#include "cleave/plan/time/simulation/timeline.h"

namespace cleave::plan::simulation {

/// OUT and IN of a step. A device moves one thing at a time, in the order of posting, beside its
/// compute.
class Moves {
 public:
  Moves(const SimulationContext& context, Timeline& timeline);

  /// OUT of what a SEND carries, or IN of what has arrived at `time`, where the device's messages
  /// pass through the host: when it is over. Otherwise at once.
  double out(int device, schedule::Instruction message, double time);
  double in(int device, schedule::Instruction message, double time);

  /// OUT or IN of what F keeps or of optimizer state.
  void post(int device, const schedule::Instruction& instruction, double time);

  /// True if `device` must stop in front of `wait`, of a move; it is woken when that ends.
  bool blocks(int device, const schedule::Instruction& wait, double time);

 private:
  using Key = std::tuple<int, int, int, int>;  ///< device, stage, segment, microbatch
  static Key key_of(int device, const schedule::Instruction& i) {
    return {device, i.stage, i.segment, i.microbatch};
  }

  double move(int device, const schedule::Instruction& instruction, std::int64_t bytes,
              double time);
  double move_message(int device, const schedule::Instruction& message, double time);

  const SimulationContext& context_;
  Timeline& timeline_;
  std::map<Key, std::int64_t> bytes_;
  std::map<Key, double> done_;   ///< of the last that was posted
  std::vector<double> free_at_;  ///< [device]
};

}  // namespace cleave::plan::simulation
