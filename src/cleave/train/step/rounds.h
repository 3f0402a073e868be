#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "cleave/comm/communicator.h"
#include "cleave/engine/compile/compile.h"
#include "cleave/engine/run/device.h"
#include "cleave/train/config/config.h"
#include "cleave/train/step/client_data.h"
#include "cleave/train/step/client_keep.h"
#include "cleave/train/step/fragments.h"
#include "cleave/train/step/round_clients.h"
#include "cleave/train/step/round_exchange.h"
#include "cleave/train/step/round_server.h"
#include "cleave/train/step/spooled_sum.h"
#include "cleave/train/step/turns.h"
#include "cleave/train/step/update_sum.h"

namespace cleave::train {

/// What one client does in a round.
struct ClientTurn {
  int client = 0;
  std::int64_t round = 0;
  std::int64_t steps = 0;   ///< local ones
  std::int64_t taken = 0;   ///< updates that its optimizer's slots have seen
  std::int64_t first = 0;   ///< the number of its next sequence
  std::int64_t shared = 0;  ///< the same of what clients share in order
};

/// What a round came to.
struct RoundReport {
  double loss = 0;  ///< mean over clients, by their weights
  double gradient_norm = 0;
  bool stop = false;
  std::int64_t steps = 0;         ///< local ones, of all clients together
  std::int64_t participants = 0;  ///< whose updates arrived
  std::int64_t absent = 0;        ///< who were chosen and did not answer
};

/// Rounds as one device has its part in them: all devices of the run play one client after another,
/// each beginning with the weights of all, and what they make of them becomes one.
///
/// Where clients are processes of their own, each plays itself, all at once; the server has their
/// updates on disk until all are there, and takes them up in the same order. Where these take turns
/// at its layers, it trains with one after another first, and then has what they made of their own.
///
/// Averaging is element by element, so that a device needs nobody else for the tensors, or slices
/// of them, that it updates: any layout inside a client gives the same bits. A client that does not
/// answer has done nothing: its data, and what its optimizer keeps, stay where they were.
class Rounds {
 public:
  /// `compiled`: what the device runs. `held`: on a server at whose layers clients that are apart
  /// take turns, theirs; else null. All must outlive it.
  Rounds(const Config& config, const engine::CompiledStep& compiled, const TrainingData& data,
         engine::Device& device, comm::Communicator& world, HeldLayers* held = nullptr);

  /// Trains one client with the weights that the device has.
  using Train = std::function<ClientResult(const ClientTurn&)>;

  /// Round `round`, from 0. Rounds come in order; after continue_after() from there. `stop`: this
  /// process was asked to. Where clients are apart, they have what became of it after share().
  RoundReport play(std::int64_t round, bool stop, const Train& train);

  /// What the server made of the round, on all processes. It has saved that before: whoever is lost
  /// from then on, the round is not played again.
  void share(RoundReport& report, std::int64_t round);

  /// The server's weights and rounds done, on all processes. Returns the rounds.
  std::int64_t share_start(std::int64_t rounds);

  /// As if so many rounds had been played.
  void continue_after(std::int64_t rounds);

  /// What clients sent of this device's tensors so far.
  std::int64_t sent_bytes() const { return spooled_ ? spooled_->taken_bytes() : sum_.sent_bytes(); }

 private:
  std::vector<int> arriving(const std::vector<int>& clients, std::int64_t round) const;
  ClientTurn turn_of(int client, std::int64_t round, std::size_t before = 0) const;
  double weight_of(int client) const;
  std::int64_t all_turns() const;
  void begin_client(int client);
  void continue_own(std::int64_t rounds);
  void refresh_values();
  using Results = std::vector<ClientResult>;  ///< [client]
  void play_in_turn(const RoundClients& clients, std::int64_t round, const Train& train,
                    Results& results);
  void take_part(const RoundClients& clients, std::int64_t round, const Train& train);
  void receive_all(const RoundClients& clients, std::int64_t round, const Train& train,
                   Results& results);
  void sum_up(const std::vector<int>& answering, const Results& results, RoundReport& report) const;
  void keep_slots(int client);
  const secure::Bytes32& secret();
  RoundEnd end_of(std::int64_t round, const std::vector<int>& answering);

  const Config& config_;
  const ClientData& clients_;
  RoundExchange* exchange_;  ///< null: all clients are played here
  Turns* turns_apart_;       ///< null: none, or all at once
  engine::Device& device_;
  HeldLayers* held_;  ///< the clients', on a server that trains layers of its own
  comm::Communicator& world_;
  UpdateSum sum_;
  Fragments fragments_;
  ClientWeights own_weights_;
  std::optional<SpooledSum> spooled_;  ///< on a server whose clients are apart
  std::optional<ClientKeep> keep_;     ///< on such a client
  std::int64_t most_sequences_ = 0;    ///< of a client
  std::vector<std::int64_t> turns_;    ///< [client] rounds that it took part in
  std::optional<secure::Bytes32> secret_;
};

}  // namespace cleave::train
