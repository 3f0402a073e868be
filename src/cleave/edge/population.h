#pragma once

#include <cstdint>
#include <vector>

namespace cleave::edge {

/// What clients of a population are like. Each has a speed and links of its own, the middle of all
/// times e^(spread · a normal number), drawn from the seed.
struct Population {
  double flops_per_second = 5e9;       ///< the middle
  double down_bytes_per_second = 4e6;  ///< the middle, to a client
  double up_bytes_per_second = 1e6;    ///< the middle, from a client
  double spread = 0.5;
  double latency = 0.04;     ///< seconds, each way
  double absence = 0.1;      ///< chance of a client to be gone before it answers
  double server_rate = 1e9;  ///< bytes per second of the server's link, each way
  std::int64_t seed = 1;
};

/// What a round asks for.
struct RoundWork {
  std::int64_t asked = 0;     ///< clients that are chosen
  std::int64_t answers = 0;   ///< that the round waits for
  double patience = 2;        ///< it ends after so many times the predicted seconds
  double up_bytes = 0;        ///< of a client
  double down_bytes = 0;      ///< of a client
  std::vector<double> flops;  ///< [client] of its local steps
};

struct SimulatedRound {
  double predicted = 0;  ///< seconds, from what the population is like
  double played = 0;     ///< seconds, client by client
  std::int64_t answered = 0;
  std::int64_t late = 0;    ///< still at work when the round ended
  std::int64_t absent = 0;  ///< gone before they answered
};

/// Rounds in virtual time.
///
/// Played: the server's link sends to one client after another, in the order in which they were
/// asked, and takes answers one after another, in the order in which they come. The round ends with
/// the last answer that it waits for, or when its patience does.
/// Predicted: the time by which the share of all clients is done that the answers are of those who
/// are not absent, in the mean over how many those may be, and what the server's link takes for one
/// answer and for half of the sending before it.
class RoundSimulator {
 public:
  RoundSimulator(const Population& population, RoundWork work);

  double predicted() const { return predicted_; }
  SimulatedRound play(std::int64_t round) const;

 private:
  double predict() const;

  Population population_;
  RoundWork work_;
  std::vector<double> seconds_;  ///< [client] from the first byte to it until its last one
  double predicted_ = 0;
};

}  // namespace cleave::edge
