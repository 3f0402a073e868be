#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "cleave/schedule/checks/tables.h"

namespace cleave::schedule::checks {

/// The collectives that replicas post, while devices run: how many have posted each. All wait for
/// all, so that asking who is missing whenever somebody waits would take the cube of the replicas.
class PostedCollectives {
 public:
  explicit PostedCollectives(const Tables& tables);

  /// Which of them the WAIT at this position of a device completes.
  std::size_t awaited(int device, std::int32_t wait) const;

  /// Whether all that this device posts it with have done so.
  bool is_complete(std::size_t collective, int device) const {
    return collectives_[collective].posted == holders(device);
  }

  void wait(std::size_t collective, int device) {
    collectives_[collective].waiting.push_back(device);
  }

  /// The device posts its next one of this stage. Returns who has waited for that, if all have now.
  std::vector<int> post(int device, int stage);

  /// Where a device posts a collective of a stage.
  std::int32_t post_of(int device, int stage, std::size_t collective) const;

  /// The first device that has not posted it, where each stands at `at`; looked for once.
  int missing(std::size_t collective, int stage, std::span<const std::int32_t> at);

 private:
  struct Collective {
    int posted = 0;
    int missing = -1;
    std::vector<int> waiting;  // devices that stand at its WAIT
  };

  int holders(int device) const { return t_.topology.holders(device); }

  const Tables& t_;
  std::vector<std::size_t> first_;       // [stage] in collectives_
  std::vector<int> next_;                // [stage * replicas + replica] of its stage
  std::vector<Collective> collectives_;  // of one stage after another, as posted
};

}  // namespace cleave::schedule::checks
