#pragma once

#include <map>
#include <tuple>
#include <vector>

#include "cleave/plan/simulation/setting.h"
#include "cleave/plan/simulation/timeline.h"

namespace cleave::plan::simulation {

/// The collectives of a step. One begins when its last member has entered it.
class Collectives {
 public:
  Collectives(const Setting& setting, Timeline& timeline);

  /// `device` is woken when the collective ends for it.
  void enter(int device, const schedule::Instruction& instruction, double time);

  /// True while `device` waits in a collective for other members.
  bool waits(int device) const { return devices_[device].waits; }

 private:
  using Key = std::tuple<schedule::Op, int, int>;  ///< op, stage or tie, segment

  struct Device {
    std::map<Key, int> entered;  ///< how often, so that the n-th times meet
    double since = 0;            ///< when it entered the one that it is in
    bool waits = false;
  };

  int members(const schedule::Instruction& instruction) const;

  const Setting& setting_;
  Timeline& timeline_;
  std::vector<Device> devices_;
  std::map<std::tuple<Key, int, int>, std::vector<int>> entered_;  ///< (which, group, turn)
};

}  // namespace cleave::plan::simulation
