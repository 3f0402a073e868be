#pragma once

#include <vector>

#include "cleave/plan/time/costs.h"
#include "cleave/spec/mesh.h"

namespace cleave::train {

/// What is known of devices that are not threads or ranks of the one that plans: those that joined
/// over a network. Empty where nothing is known: then they are like those here.
struct DeviceFacts {
  std::vector<double> speed;           ///< [device] beside that of the one that plans
  std::vector<plan::LinkCosts> links;  ///< [from · devices + to]
  double at_once = 0;                  ///< devices that can compute at the same time; 0: not known

  bool knows_links() const { return !links.empty(); }

  /// The slower one of `so_far` and what is between two devices, in latency and in bytes.
  plan::LinkCosts slower(plan::LinkCosts so_far, int from, int to) const;

  /// The link between the devices of two places, which talk to those of their own number.
  plan::LinkCosts between(const Mesh& mesh, int from, int to) const;

  /// The slowest link in a tensor group, and the slowest among devices that hold the same stage.
  plan::LinkCosts within_places(const Mesh& mesh) const;
  plan::LinkCosts among_replicas(const Mesh& mesh) const;
};

}  // namespace cleave::train
