#include "cleave/edge/population.h"

#include <cmath>

#include <gtest/gtest.h>

namespace cleave::edge {
namespace {

RoundWork work_for(std::int64_t clients, std::int64_t asked, std::int64_t answers) {
  return {.asked = asked,
          .answers = answers,
          .up_bytes = 4e6,
          .down_bytes = 8e6,
          .flops = std::vector<double>(static_cast<std::size_t>(clients), 2e10)};
}

double mean_of(const RoundSimulator& simulator, int rounds) {
  double sum = 0;
  for (int round = 0; round < rounds; ++round) sum += simulator.play(round).played;
  return sum / rounds;
}

// Alike clients, nobody absent and a server without limits: sending, work, sending, two latencies.
TEST(RoundSimulator, TakesWhatOneClientTakesWhereAllAreAlike) {
  Population population{.spread = 0, .absence = 0, .server_rate = 1e18};
  const RoundSimulator simulator(population, work_for(100, 20, 10));
  const double expected = 0.08 + 8e6 / 4e6 + 2e10 / 5e9 + 4e6 / 1e6;

  EXPECT_NEAR(simulator.predicted(), expected, 1e-9);
  const SimulatedRound round = simulator.play(3);
  EXPECT_NEAR(round.played, expected, 1e-9);
  EXPECT_EQ(round.answered, 10);
  EXPECT_EQ(round.late, 10);
  EXPECT_EQ(round.absent, 0);
}

// All answers come at once and go through the server's link one by one.
TEST(RoundSimulator, QueuesAtTheServersLink) {
  Population population{.spread = 0, .latency = 0, .absence = 0, .server_rate = 1e6};
  RoundWork work = work_for(10, 10, 10);
  work.down_bytes = 0;
  const SimulatedRound round = RoundSimulator(population, work).play(0);

  EXPECT_NEAR(round.played, 4 + 4 + 10 * 4, 1e-9) << "work, sending, and ten through the link";
}

TEST(RoundSimulator, PredictsTheMeanOfWhatIsPlayed) {
  for (const double spread : {0.2, 0.5, 1.0}) {
    for (const double absence : {0.0, 0.1, 0.3}) {
      const Population population{.spread = spread, .absence = absence};
      const RoundSimulator simulator(population, work_for(10'000, 200, 130));
      const double played = mean_of(simulator, 100);
      EXPECT_NEAR(simulator.predicted(), played, 0.1 * played) << spread << " " << absence;
    }
  }
}

TEST(RoundSimulator, EndsWithItsPatienceIfTooFewAnswer) {
  const Population population{.spread = 0.1, .absence = 0.5};
  const RoundSimulator simulator(population, work_for(1000, 100, 100));
  const SimulatedRound round = simulator.play(0);

  EXPECT_LT(round.answered, 100);
  EXPECT_EQ(round.played, 2 * simulator.predicted());
  EXPECT_EQ(round.answered + round.late + round.absent, 100);
  EXPECT_NE(simulator.play(1).absent, simulator.play(2).absent);
  EXPECT_EQ(simulator.play(1).played, simulator.play(1).played);
}

}  // namespace
}  // namespace cleave::edge
