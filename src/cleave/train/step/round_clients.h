#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "cleave/train/config/config.h"

namespace cleave::train {

/// Below three, a sum says too much of each, and two who agree know the third.
inline constexpr std::ptrdiff_t kFewestMasked = 3;

/// Who takes part in a round: a function of the seed and the round.
struct RoundClients {
  std::vector<int> chosen = {};    ///< ascending
  std::vector<bool> answers = {};  ///< [place among them] whether its update arrives

  /// Those whose updates arrive, ascending.
  std::vector<int> answering() const;
  /// The place of a client among the chosen.
  int place_of(int client) const;
};

/// With noise every client is chosen by itself, with the chance edge.sample / clients, as the
/// accountant takes it; otherwise exactly edge.sample of them are.
RoundClients clients_of_round(const Config& config, std::int64_t round);

/// Those of the chosen that were not declared absent: they agree on masks, whoever drops out then.
std::vector<int> present_of(const Config& config, const RoundClients& clients, std::int64_t round);

/// The steps that a client with so many sequences takes in a round. An epoch ends with a whole
/// batch, whose last sequences may be the first of the next one.
std::int64_t local_steps(const Config& config, std::int64_t sequences);

/// Throws UserError if a round of the run will have fewer answers than edge.quorum, or fewer
/// clients than masks need, or if all of them cost more than edge.epsilon.
void check_rounds(const Config& config);

/// What so many rounds cost of edge.epsilon; 0 without noise.
double privacy_spent(const Config& config, std::int64_t rounds);

}  // namespace cleave::train
