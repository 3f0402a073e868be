#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <vector>

#include "cleave/comm/communicator.h"
#include "cleave/engine/stage/tensor_state.h"
#include "cleave/train/step/byte_stream.h"

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

  /// So many clients send at the same time; of each the server has two messages in memory.
  static constexpr std::size_t kAtOnce = 16;

  /// `own`: the client that this process plays; none for the server. All processes make theirs
  /// together.
  RoundExchange(comm::Communicator& processes, int clients, std::optional<int> own);

  bool is_server() const { return processes_.rank() == 0; }
  bool plays(int client) const { return own_ == client; }
  /// The clients that have a process, ascending.
  std::vector<int> here() const;
  std::optional<int> own() const { return own_; }
  /// Of one that has a process: its rank among all.
  int process_of(int client) const { return process_of_[static_cast<std::size_t>(client)]; }

  /// A client's turn, to the server, and its update, which the caller puts and ends.
  void send_result(const ClientResult& result);
  SendStream send_update() { return {processes_, {0}, kUpdateTag}; }

  /// On the server: the turns of some clients, in the order in which they are listed, whose updates
  /// have `bytes` each. take(place, piece) gets the pieces of client clients[place] in order.
  using Take = std::function<void(std::size_t place, std::span<const std::byte> piece)>;
  std::vector<ClientResult> receive_turns(std::span<const int> clients, std::int64_t bytes,
                                          const Take& take);

  /// Letters between a client, which names nobody, and the server.
  void to_server(std::span<const std::byte> bytes);
  void from_server(std::span<std::byte> bytes);
  void to_client(int client, std::span<const std::byte> bytes);
  void from_client(int client, std::span<std::byte> bytes);

  /// The server's, to everybody. It sends them to each itself: what a client is sent is for nobody
  /// to pass on, and not in the table of what leaves a client.
  void share_weights(const Tensors& tensors);
  /// The two ends of that: on the server, and on a client that is sent so many bytes.
  SendStream send_weights() { return {processes_, others(), kWeightsTag}; }
  ReceiveStream receive_weights(std::int64_t bytes) { return {processes_, 0, kWeightsTag, bytes}; }
  void share_numbers(std::span<double> numbers);

 private:
  static constexpr int kResultTag = 1;
  static constexpr int kUpdateTag = 2;
  static constexpr int kLetterTag = 3;
  static constexpr int kWeightsTag = 4;
  static constexpr int kNumbersTag = 5;

  std::vector<int> others() const;

  comm::Communicator& processes_;
  std::optional<int> own_;
  std::vector<int> process_of_;  ///< [client]
};

}  // namespace cleave::train
