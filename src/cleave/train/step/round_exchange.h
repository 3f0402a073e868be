#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <vector>

#include "cleave/comm/communicator.h"
#include "cleave/engine/stage/tensor_state.h"

namespace cleave::train {

/// What local steps came to: means over them.
struct ClientResult {
  double loss = 0;
  double gradient_norm = 0;
  bool stop = false;  ///< some device was asked to stop
};

/// Rounds whose clients are processes of their own, and train at the same time: each sends the
/// server, process 0, what it made, and is sent what became of all of it.
class RoundExchange {
 public:
  using Tensors = std::vector<const engine::TensorState*>;

  /// The most that one message of an update has: what an update takes of the server's memory.
  static constexpr std::size_t kMessage = 1 << 20;

  /// `own`: the client that this process plays; none for the server. All processes make theirs
  /// together.
  RoundExchange(comm::Communicator& processes, int clients, std::optional<int> own);

  bool is_server() const { return processes_.rank() == 0; }
  bool plays(int client) const { return own_ == client; }
  std::optional<int> own() const { return own_; }

  /// A client's turn, to the server, and some of its update.
  void send_result(const ClientResult& result);
  void send_update(std::span<const std::byte> bytes);

  /// On the server: the same, so many bytes of the update as the client sends at a time, in pieces
  /// to `take`.
  using Take = std::function<void(std::span<const std::byte> piece)>;
  ClientResult receive_turn(int client);
  void receive_update(int client, std::int64_t bytes, const Take& take);

  /// Letters between a client, which names nobody, and the server.
  void to_server(std::span<const std::byte> bytes);
  void from_server(std::span<std::byte> bytes);
  void to_client(int client, std::span<const std::byte> bytes);
  void from_client(int client, std::span<std::byte> bytes);

  /// The server's, to everybody.
  void share_weights(const Tensors& tensors);
  void share_numbers(std::span<double> numbers);

 private:
  int process_of(int client) const { return process_of_[static_cast<std::size_t>(client)]; }

  comm::Communicator& processes_;
  std::optional<int> own_;
  std::vector<int> process_of_;     ///< [client]
  std::vector<std::byte> message_;  ///< of an update, on its way; at most kMessage
};

}  // namespace cleave::train
