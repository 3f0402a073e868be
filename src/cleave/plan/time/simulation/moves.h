#pragma once

#include <cstdint>
#include <map>
#include <tuple>
#include <vector>

#include "cleave/plan/time/simulation/setting.h"
#include "cleave/plan/time/simulation/timeline.h"

namespace cleave::plan::simulation {

/// OUT and IN of a step. A device moves one thing at a time, in the order of posting, beside its
/// compute.
class Moves {
 public:
  Moves(const Setting& setting, Timeline& timeline);

  /// OUT or IN.
  void post(int device, const schedule::Instruction& instruction, double time);

  /// True if `device` must stop in front of `instruction`, a WAIT; it is woken when the move ends.
  bool blocks(int device, const schedule::Instruction& instruction, double time);

 private:
  using Key = std::tuple<int, int, int, int>;  ///< device, stage, segment, microbatch
  static Key key_of(int device, const schedule::Instruction& i) {
    return {device, i.stage, i.segment, i.microbatch};
  }

  const Setting& setting_;
  Timeline& timeline_;
  std::map<Key, std::int64_t> bytes_;
  std::map<Key, double> done_;   ///< of the last that was posted
  std::vector<double> free_at_;  ///< [device]
};

}  // namespace cleave::plan::simulation
