#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "cleave/edge/outer.h"
#include "cleave/engine/run/device.h"
#include "cleave/train/config/config.h"
#include "cleave/train/step/client_data.h"

namespace cleave::train {

/// What one client does in a round.
struct ClientTurn {
  int client = 0;
  std::int64_t round = 0;
  std::int64_t steps = 0;  ///< local ones
  std::int64_t taken = 0;  ///< updates behind its optimizer's slots
  std::int64_t first = 0;  ///< the number of its next sequence
};

/// What local steps came to: means over them.
struct ClientResult {
  double loss = 0;
  double gradient_norm = 0;
  bool stop = false;  ///< some device was asked to stop
};

/// What a round came to.
struct RoundReport {
  double loss = 0;  ///< mean over clients, by their weights
  double gradient_norm = 0;
  bool stop = false;
  std::int64_t steps = 0;  ///< local ones, of all clients together
  std::int64_t participants = 0;
};

/// The clients of a round, ascending: a function of the seed and the round.
std::vector<int> participants_of(const Config& config, std::int64_t round);

/// The steps that a client with so many sequences takes in a round. An epoch ends with a whole
/// batch, whose last sequences may be the first of the next one.
std::int64_t local_steps(const Config& config, std::int64_t sequences);

/// Rounds as one device has its part in them: all devices of the run play one client after another,
/// each beginning with the weights of all, and what they make of them becomes one.
///
/// Averaging is element by element, so that a device needs nobody else for the tensors, or slices
/// of them, that it updates: any layout inside a client gives the same bits.
class Rounds {
 public:
  /// All must outlive it.
  Rounds(const Config& config, const ClientData& clients, engine::Device& device);

  /// Trains one client with the weights that the device has.
  using Train = std::function<ClientResult(const ClientTurn&)>;

  /// Round `round`, from 0. Rounds come in order; after continue_after() from there.
  RoundReport play(std::int64_t round, const Train& train);

  /// As if so many rounds had been played.
  void continue_after(std::int64_t rounds);

 private:
  std::vector<int> arriving(const std::vector<int>& clients, std::int64_t round) const;
  ClientTurn turn_of(int client, std::int64_t round) const;
  double weight_of(int client) const;
  void begin_round();
  void begin_client(int client);
  void end_client(int client, std::size_t place);
  void add_update(const engine::TensorState& tensor, int client);
  void aggregate(const engine::TensorState& tensor, std::size_t clients, double weights);
  void aggregate_median(const engine::TensorState& tensor, std::size_t clients);

  const Config& config_;
  const ClientData& clients_;
  engine::Device& device_;
  const edge::OuterKind& outer_;
  edge::OuterHyper hyper_;
  std::int64_t most_sequences_ = 0;                  ///< of a client
  std::vector<const engine::TensorState*> tensors_;  ///< all trained ones, copies too
  std::vector<std::int64_t> turns_;                  ///< [client] rounds that it took part in
};

}  // namespace cleave::train
