#pragma once

#include <map>
#include <tuple>
#include <vector>

#include "cleave/plan/time/simulation/simulation_context.h"
#include "cleave/plan/time/simulation/timeline.h"

namespace cleave::plan::simulation {

/// The collectives of a step, as the executor runs them. One begins when its last member is there.
///
/// A device stays in TIE and NORM until they end; over links with a way (SimulateOptions::norm_way)
/// NORM ends for each when it has the numbers of all, and TIE when it has the sum. REDUCE, GATHER,
/// REFRESH and COLLECT are only posted: they go on while the device computes, until it WAITs for
/// them.
class Collectives {
 public:
  Collectives(const SimulationContext& context, Timeline& timeline);

  /// GATHER, REDUCE, REFRESH or COLLECT.
  void post(int device, const schedule::Instruction& instruction, double time);

  /// TIE or NORM; `device` is woken when it ends.
  void enter(int device, const schedule::Instruction& instruction, double time);

  /// True if `device` must stop in front of `wait`, of a posted one; what it waits for wakes it.
  bool blocks(int device, const schedule::Instruction& wait, double time);

  /// What posted collectives that have begun made the device do itself, and it has not done yet: it
  /// does so between the layers of the next pass, or while it waits.
  double take_work(int device);
  void waited(int device, double seconds);

  /// True while `device` waits in a collective for other members.
  bool waits(int device) const { return devices_[device].waits; }

 private:
  using Key = std::tuple<schedule::Op, int, int>;  ///< op, stage or tie, segment

  struct Meeting {
    std::vector<int> members;  ///< those who are there
    double end = kNotYet;
    std::vector<int> waiting;  ///< devices that are to be woken at its end
  };

  struct Posted {
    schedule::Instruction instruction;
    Meeting* meeting = nullptr;
  };

  struct Device {
    std::map<Key, int> entered;  ///< how often, so that the n-th times meet
    double since = 0;            ///< when it entered the one that it is in
    bool waits = false;
    std::vector<Posted> posted;  ///< that nothing has waited for
    double work = 0;
    double refreshed = 0;  ///< when its last REFRESH ends
  };

  Meeting& join(int device, const schedule::Instruction& instruction);
  int member_count(const schedule::Instruction& instruction) const;
  bool complete(const Meeting& meeting, const schedule::Instruction& instruction) const;
  std::vector<double> begins_of_norm() const;
  double tied_at(int member, const Meeting& meeting, double seconds, double time) const;

  const SimulationContext& context_;
  Timeline& timeline_;
  std::vector<Device> devices_;
  std::map<std::tuple<Key, int, int>, Meeting> meetings_;  ///< (which, group, turn)
};

}  // namespace cleave::plan::simulation
