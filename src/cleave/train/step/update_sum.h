#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "cleave/comm/communicator.h"
#include "cleave/edge/codec.h"
#include "cleave/edge/outer.h"
#include "cleave/engine/run/device.h"
#include "cleave/secure/secure_sum.h"
#include "cleave/train/config/config.h"

namespace cleave::train {

/// A client's update on its way into the sum of a round.
struct ClientUpdate {
  int client = 0;
  std::int64_t round = 0;
  std::size_t arrival = 0;                       ///< how many came before it
  double weight = 1;                             ///< at most 1, so that sums do not run over
  const secure::MaskingClient* masks = nullptr;  ///< null: it is sent as it is
};

/// What ends a round.
struct RoundEnd {
  std::int64_t round = 0;
  std::size_t clients = 0;  ///< whose updates arrived
  double weights = 0;       ///< what the sum is divided by
  std::span<const secure::LeftMask> left = {};
  std::optional<secure::Bytes32> noise = {};  ///< what it is drawn from; nothing: there is none
};

/// The sum of the updates of a round, as one device has its part in it, and what the weights of all
/// make of it. Everything is element by element, in slots beside the weights.
class UpdateSum {
 public:
  /// `names`: all tensors of the model, ascending. All must outlive it.
  UpdateSum(const Config& config, const std::vector<std::string>& names, engine::Device& device,
            comm::Communicator& world);

  /// The weights of now are what all clients begin with.
  void begin_round();

  /// Weights as they were when the round began.
  void reset_weights();

  /// Takes up what a client made of the weights; they are no more to be used then.
  void add(const ClientUpdate& update);

  /// The weights of all follow the sum.
  void end_round(const RoundEnd& end);

  /// What clients sent of this device's tensors so far.
  std::int64_t sent_bytes() const { return sent_bytes_; }

  const std::vector<const engine::TensorState*>& tensors() const { return tensors_; }

 private:
  void encode(const engine::TensorState& tensor, const ClientUpdate& update);
  double clip_scale();
  double difference(float now, float start) const;
  void keep_update(const engine::TensorState& tensor, std::size_t arrival);
  void add_update(const engine::TensorState& tensor, const ClientUpdate& update, double scale);
  void follow_sum(const engine::TensorState& tensor, const RoundEnd& end);
  void follow_kept(const engine::TensorState& tensor, std::size_t chosen);
  std::size_t nearest_client();

  const Config& config_;
  const std::vector<std::string>& names_;
  engine::Device& device_;
  comm::Communicator& world_;
  const edge::OuterKind& outer_;
  edge::OuterHyper hyper_;
  const edge::Codec* codec_;                         ///< null: the weights themselves are sent
  std::vector<const engine::TensorState*> tensors_;  ///< all trained ones, copies too
  std::vector<int> arrived_;  ///< clients of the round, in the order in which they came
  std::int64_t sent_bytes_ = 0;
};

}  // namespace cleave::train
