#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "cleave/comm/communicator.h"
#include "cleave/edge/outer.h"
#include "cleave/engine/run/device.h"
#include "cleave/secure/secure_sum.h"
#include "cleave/train/config/config.h"
#include "cleave/train/step/update_encoder.h"
#include "cleave/train/step/update_math.h"

namespace cleave::train {

/// The sum of the updates of a round, as one device has its part in it, and what the weights of all
/// make of it. Everything is element by element, in slots beside the weights.
class UpdateSum {
 public:
  /// `names`: all tensors of the model, ascending; `shared`: those that are not averaged. All but
  /// these must outlive it.
  UpdateSum(const Config& config, const std::vector<std::string>& names, engine::Device& device,
            comm::Communicator& world, const std::set<std::string>& shared = {});

  /// The weights of now are what updates are counted from.
  void take_start();

  /// A round that averages these of tensors().
  void begin_round(std::vector<const engine::TensorState*> averaged);

  /// Weights as take_start() found them.
  void reset_weights();

  /// Takes up what a client made of the weights; they are no more to be used then.
  void add(const ClientUpdate& update);

  /// The weights of all follow the sum.
  void end_round(const RoundEnd& end);

  /// What clients sent of this device's tensors so far.
  std::int64_t sent_bytes() const { return sent_bytes_; }

  UpdateEncoder& encoder() { return encoder_; }

  const std::vector<const engine::TensorState*>& tensors() const { return tensors_; }

 private:
  void count(const engine::TensorState& tensor, std::size_t bytes);
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
  UpdateEncoder encoder_;
  std::vector<const engine::TensorState*> tensors_;   ///< all that are averaged, copies too
  std::vector<const engine::TensorState*> averaged_;  ///< those of the round
  std::vector<int> arrived_;  ///< clients of the round, in the order in which they came
  std::int64_t sent_bytes_ = 0;
};

}  // namespace cleave::train
