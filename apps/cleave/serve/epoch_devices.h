#pragma once

#include <cstdint>
#include <vector>

#include "cleave/comm/tcp/server.h"

namespace cleave::app {

std::vector<std::int64_t> seats_of(const std::vector<comm::Candidate>& candidates);

/// Who takes part in an epoch of a served run.
struct EpochDevices {
  std::vector<comm::Candidate> members;
  std::vector<comm::Candidate> givers;  ///< of state to the members, without another part

  /// Of all of them, members first.
  std::vector<std::int64_t> seats() const;

  /// Whether every member is one of `candidates`, and so could take part in the next epoch.
  bool are_all_among(const std::vector<comm::Candidate>& candidates) const;

  /// The first `count` of `candidates` are the next epoch's members. Those of the others who took
  /// part before may have state that is needed.
  void go_on_with(std::vector<comm::Candidate> candidates, std::int64_t count);
};

}  // namespace cleave::app
