#pragma once

#include <cstdint>
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
/// server, process 0, the weights that it made, and is sent what became of all of them.
class RoundExchange {
 public:
  using Tensors = std::vector<const engine::TensorState*>;

  /// `own`: the client that this process plays; none for the server. All processes make theirs
  /// together.
  RoundExchange(comm::Communicator& processes, int clients, std::optional<int> own);

  bool is_server() const { return processes_.rank() == 0; }
  bool plays(int client) const { return own_ == client; }

  /// A client's turn, to the server; and there, into the weights.
  void send(const Tensors& tensors, const ClientResult& result);
  ClientResult receive(int client, const Tensors& tensors);

  /// The server's, to everybody.
  void share_weights(const Tensors& tensors);
  void share_numbers(std::span<double> numbers);

 private:
  /// The weights of a tensor, one run after another.
  std::span<float> packed(const engine::TensorState& tensor);
  void unpack(std::span<const float> weights, const engine::TensorState& tensor);
  std::span<float> room_for(const engine::TensorState& tensor);

  comm::Communicator& processes_;
  std::optional<int> own_;
  std::vector<int> process_of_;  ///< [client]
  std::vector<float> weights_;   ///< of one tensor, on its way
};

}  // namespace cleave::train
