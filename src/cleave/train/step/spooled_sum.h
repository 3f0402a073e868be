#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "cleave/base/codec.h"
#include "cleave/edge/outer.h"
#include "cleave/train/config/config.h"
#include "cleave/train/step/round_exchange.h"
#include "cleave/train/step/update_math.h"
#include "cleave/train/step/update_spool.h"

namespace cleave::train {

/// The bytes of so many numbers of an update as clients send them.
std::int64_t update_bytes(const EdgeConfig& edge, std::int64_t elements);

/// On a server whose clients are apart: their updates, on disk until the round closes, and what the
/// weights of all make of them, a piece of a tensor after another.
///
/// The bits are those of UpdateSum. In memory are the weights, the slots of the outer rule, and for
/// every client of the round one piece of a tensor: kPiece numbers.
class SpooledSum {
 public:
  static constexpr std::int64_t kPiece = 16384;  ///< whole blocks of every codec

  /// All must outlive it.
  SpooledSum(const Config& config, const RoundExchange::Tensors& tensors);

  /// A round that averages these tensors, of those that it knows.
  void begin_round(const RoundExchange::Tensors& averaged);

  /// The turns of the clients of a round, in this order. `weights`: what their updates count for.
  std::vector<ClientResult> receive(RoundExchange& exchange, std::span<const int> clients,
                                    std::span<const double> weights);

  /// The weights of all follow what arrived.
  void close(const RoundEnd& end);

  /// What clients sent so far.
  std::int64_t taken_bytes() const { return spool_.taken_bytes(); }

 private:
  struct Tensor {
    const engine::TensorState* state = nullptr;
    std::span<float> weights;
    std::span<float> momentum;  ///< empty where the rule keeps none
    std::span<float> squares;
    std::int64_t offset = 0;  ///< in a client's update
  };
  struct Arrived {
    int client = 0;
    double weight = 1;
    std::int64_t read = 0;  ///< pairs of a sparse tensor that lie before the piece in hand
  };
  /// Elements [first, first + count) of a tensor.
  struct Piece {
    const Tensor* tensor = nullptr;
    std::int64_t first = 0;
    std::size_t count = 0;
  };

  template <class Visit>
  void for_each_piece(const Tensor& tensor, Visit&& visit);
  std::span<const double> changes(std::size_t arrival, const Piece& piece);
  void read_pairs(std::size_t arrival, const Piece& piece, std::int64_t bytes);
  void clip_weights();
  std::size_t nearest_client();
  void add_up(const Piece& piece);
  void follow_sum(const Piece& piece, const RoundEnd& end);
  void follow_kept(const Piece& piece, std::size_t chosen);
  void follow(const Piece& piece, std::size_t begin, std::span<const double> updates);
  std::vector<std::size_t> by_name() const;

  const Config& config_;
  const edge::OuterKind& outer_;
  edge::OuterHyper hyper_;
  const Codec& codec_;
  UpdateSpool spool_;
  std::vector<Tensor> all_;
  std::vector<Tensor> tensors_;   ///< those of the round
  std::int64_t bytes_ = 0;        ///< of a client's update
  std::vector<Arrived> arrived_;  ///< in the order in which they came
  std::vector<std::byte> read_;   ///< of a piece
  std::vector<float> values_;
  std::vector<double> changes_;
  std::vector<std::uint64_t> sums_;
  std::vector<std::vector<float>> kept_;  ///< [arrival] a piece, for a robust rule
};

}  // namespace cleave::train
