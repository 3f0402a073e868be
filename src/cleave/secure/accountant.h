#pragma once

#include <cstdint>

namespace cleave::secure {

/// Rounds that each release a sum of clipped updates with normal noise.
struct NoisyRounds {
  double noise = 0;  ///< deviation of the noise, over the most that a client can change of the sum
  double rate = 1;   ///< chance of a client to take part in a round, independent of all others
  double delta = 1e-5;
};

/// What so many rounds cost: (ε, δ)-differential privacy towards whoever sees what was released, of
/// one client more or less. By Rényi's divergences of the sampled Gaussian mechanism (Mironov,
/// Talwar and Zhang, 2019), added up over rounds, at the best of the orders 1.1 … 63.
double epsilon_after(std::int64_t rounds, const NoisyRounds& how);

/// The most rounds that cost no more than `epsilon`; 0 if not one does.
std::int64_t rounds_within(double epsilon, const NoisyRounds& how);

}  // namespace cleave::secure
