#include "cleave/edge/population.h"

#include <algorithm>
#include <cmath>

#include "cleave/base/check.h"
#include "cleave/base/elementary.h"
#include "cleave/base/permutation.h"
#include "cleave/base/philox.h"

namespace cleave::edge {

RoundSimulator::RoundSimulator(const Population& population, RoundWork work)
    : population_(population), work_(std::move(work)) {
  CLEAVE_CHECK(
      work_.answers >= 1 && work_.answers <= work_.asked && work_.asked <= std::ssize(work_.flops),
      work_.answers, " of ", work_.asked, " of ", work_.flops.size());
  const auto seed = static_cast<std::uint64_t>(population.seed);
  const Philox speed(seed, "population", "speed");
  const Philox down(seed, "population", "down");
  const Philox up(seed, "population", "up");
  for (std::size_t client = 0; client < work_.flops.size(); ++client) {
    const auto drawn = [&](const Philox& random, double middle) {
      return middle * exponential(population.spread * random.normal(client));
    };
    seconds_.push_back(2 * population.latency +
                       work_.down_bytes / drawn(down, population.down_bytes_per_second) +
                       work_.flops[client] / drawn(speed, population.flops_per_second) +
                       work_.up_bytes / drawn(up, population.up_bytes_per_second));
  }
  predicted_ = predict();
}

double RoundSimulator::predict() const {
  // Numbers that part a normal distribution into nine equal shares, each the middle of one.
  constexpr double kMiddles[] = {-1.593, -0.967, -0.589, -0.282, 0, 0.282, 0.589, 0.967, 1.593};
  std::vector<double> sorted = seconds_;
  std::ranges::sort(sorted);
  const auto asked = static_cast<double>(work_.asked);
  const auto seconds_with = [&](double present) {
    const double share = std::min(1.0, static_cast<double>(work_.answers) / (present + 1));
    return sorted[std::min(sorted.size() - 1,
                           static_cast<std::size_t>(share * static_cast<double>(sorted.size())))];
  };
  const double present = asked * (1 - population_.absence);
  const double deviation = std::sqrt(present * population_.absence);
  const double usual = seconds_with(present);
  double waiting = 0;
  for (const double middle : kMiddles)
    waiting += std::min(seconds_with(present + middle * deviation), work_.patience * usual) /
               static_cast<double>(std::size(kMiddles));
  const double sending = asked * work_.down_bytes / population_.server_rate;
  const double taking = work_.up_bytes / population_.server_rate;
  return std::max(waiting + sending / 2 + taking, static_cast<double>(work_.answers) * taking);
}

SimulatedRound RoundSimulator::play(std::int64_t round) const {
  const auto seed = static_cast<std::uint64_t>(population_.seed);
  const Permutation order(seconds_.size(), seed, "asked clients");
  const Philox absence(seed, "absence", detail::concat("round ", round));
  SimulatedRound played{.predicted = predicted_};
  std::vector<double> arrivals;
  double sent = 0;
  for (std::int64_t i = 0; i < work_.asked; ++i) {
    const auto client = order.at(static_cast<std::uint64_t>(round), static_cast<std::uint64_t>(i));
    sent += work_.down_bytes / population_.server_rate;
    if (absence.uniform(client) < population_.absence) {
      ++played.absent;
    } else {
      arrivals.push_back(sent + seconds_[client]);
    }
  }
  std::ranges::sort(arrivals);
  const double patience = work_.patience * predicted_;
  double taken = 0;
  for (const double arrival : arrivals) {
    const double done = std::max(taken, arrival) + work_.up_bytes / population_.server_rate;
    if (played.answered == work_.answers || done > patience) break;
    taken = done;
    ++played.answered;
  }
  played.late = std::ssize(arrivals) - played.answered;
  played.played = played.answered == work_.answers ? taken : patience;
  return played;
}

}  // namespace cleave::edge
