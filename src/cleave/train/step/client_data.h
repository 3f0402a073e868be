#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "cleave/base/permutation.h"
#include "cleave/data/dataset.h"
#include "cleave/train/config/config.h"

namespace cleave::engine {
struct CompiledStep;
}

namespace cleave::train {

class RoundExchange;
class Turns;

/// Which windows of the training data belong to which client, and in which order each goes through
/// its own.
///
/// The order of a client is a function of the seed and of the client alone: it is the same whether
/// clients train on devices of their own or one device plays them all.
class ClientData {
 public:
  /// `windows` [client] are numbers as Dataset::read_window() takes them; none may be empty.
  ClientData(std::vector<std::vector<std::int64_t>> windows, std::int64_t seed);

  int clients() const { return static_cast<int>(windows_.size()); }
  std::int64_t windows_of(int client) const { return std::ssize(windows_[client]); }

  /// The window that is the client's sequence `number`, counted from 0 through all its epochs.
  std::int64_t window(int client, std::int64_t number) const;
  /// How often the client has gone through all of its windows before sequence `number`.
  std::int64_t epoch(int client, std::int64_t number) const {
    return number / std::ssize(windows_[client]);
  }

 private:
  std::vector<std::vector<std::int64_t>> windows_;
  std::vector<Permutation> orders_;  ///< [client]
};

/// The data of the clients of `config`: what they bring, or shares of `data`. Nothing where data
/// are nobody's in particular. Throws UserError if they cannot be shared out.
std::optional<ClientData> client_data(const Config& config, const data::Data& data);

/// What a run trains on, and whose it is.
struct TrainingData {
  const data::Data* data = nullptr;
  const ClientData* clients = nullptr;  ///< null: nobody's in particular
  RoundExchange* exchange = nullptr;    ///< where clients are processes of their own
  Turns* turns = nullptr;               ///< where these take turns at the server's layers
  /// On their server: the plan by which it holds the clients' layers between turns.
  const engine::CompiledStep* held = nullptr;
};

}  // namespace cleave::train
