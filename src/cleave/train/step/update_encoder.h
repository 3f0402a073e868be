#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "cleave/base/codec.h"
#include "cleave/comm/communicator.h"
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

/// What becomes of a client's update before it leaves the client: a codec's bytes, a length that
/// edge.clip bounds, masks. In `master` are the weights that the client made, and in the slot
/// kStartSlot those that it began with.
class UpdateEncoder {
 public:
  /// `names`: all tensors of the model, ascending. All must outlive it.
  UpdateEncoder(const Config& config, const std::vector<std::string>& names,
                const engine::Device& device, comm::Communicator& world);

  bool has_codec() const { return codec_ != nullptr; }

  /// The bytes of a tensor's update. What the client made of the weights becomes what the server
  /// makes of the bytes.
  std::vector<std::byte> encode(const engine::TensorState& tensor, const ClientUpdate& update);

  /// What an element changed by.
  double difference(float now, float start) const;

  /// The factor that makes the whole update at most edge.clip long; the same on all devices.
  double clip_scale();

  /// Where clients are apart, a client's: its update, tensor after tensor, as bytes; the weights
  /// are no more to be used then. `encoded` hears when what a codec left out is known, before the
  /// first of them.
  using Deliver = std::function<void(std::span<const std::byte> bytes)>;
  void send(const std::vector<const engine::TensorState*>& tensors, const ClientUpdate& update,
            const std::function<void()>& encoded, const Deliver& deliver);

 private:
  View error_of(const engine::TensorState& tensor, int client) const;
  void send_masked(const engine::TensorState& tensor, const ClientUpdate& update, double scale,
                   const Deliver& deliver);

  const Config& config_;
  const std::vector<std::string>& names_;
  const engine::Device& device_;
  comm::Communicator& world_;
  const Codec* codec_;  ///< null: the weights themselves are sent
  bool apart_;          ///< clients are processes of their own, and this is one of them
};

}  // namespace cleave::train
