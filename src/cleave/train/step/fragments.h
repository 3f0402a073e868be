#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "cleave/spec/graph.h"
#include "cleave/train/config/config.h"
#include "cleave/train/step/round_exchange.h"

namespace cleave::train {

/// Which part of the model a round averages: segment s belongs to fragment s mod edge.fragments,
/// and rounds take the fragments by turns. Clients go on with their own weights of the others.
class Fragments {
 public:
  Fragments(const Config& config, const Graph& model);

  /// Whether rounds average a part only.
  bool streams() const { return count_ > 1; }

  /// Those of `tensors` that a round averages.
  RoundExchange::Tensors of_round(const RoundExchange::Tensors& tensors, std::int64_t round) const;

  /// Those that some of the rounds [first, end) averages.
  RoundExchange::Tensors of_rounds(const RoundExchange::Tensors& tensors, std::int64_t first,
                                   std::int64_t end) const;

  /// The fragment of a tensor, by the name that checkpoints know.
  std::int64_t fragment_of(const std::string& tensor) const { return of_.at(tensor); }

 private:
  std::int64_t count_;
  std::map<std::string, std::int64_t> of_;
};

/// The weights that every client has of its own, where rounds average a part: in slots beside those
/// of all. Does nothing where rounds average everything, and on a server, whose clients have them.
class ClientWeights {
 public:
  /// `exchange`: null where all clients are played here. All must outlive it.
  ClientWeights(const Fragments& fragments, const RoundExchange::Tensors& tensors,
                const RoundExchange* exchange, int clients);

  /// The device's weights become the client's.
  void begin(int client) const;
  /// … and the client's the device's.
  void keep(int client) const;
  /// What was averaged becomes every client's, whether it took part or not; where clients are apart
  /// it is also what the next update is counted from.
  void join(const RoundExchange::Tensors& averaged) const;

 private:
  std::string slot(int client) const;

  bool streams_;
  const RoundExchange::Tensors& tensors_;
  bool apart_;
  int first_;  ///< client that is here
  int end_;    ///< … after the last that is
};

}  // namespace cleave::train
