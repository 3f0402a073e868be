#include "cleave/train/step/update_encoder.h"

#include <algorithm>
#include <cmath>

#include "cleave/base/philox.h"
#include "cleave/train/step/round_exchange.h"
#include "cleave/train/step/round_slots.h"
#include "cleave/train/step/slot_elements.h"
#include "cleave/train/step/update_math.h"

namespace cleave::train {

using engine::TensorState;

UpdateEncoder::UpdateEncoder(const Config& config, const std::vector<std::string>& names,
                             const engine::Device& device, comm::Communicator& world)
    : config_(config),
      names_(names),
      device_(device),
      world_(world),
      codec_(config.edge.codec == "none" ? nullptr : find_codec(config.edge.codec)),
      apart_(owners_are_apart(config)) {}

/// What its codec left out of the client's update before.
View UpdateEncoder::error_of(const TensorState& tensor, int client) const {
  return slot_of(tensor, apart_ ? std::string(kOwnErrorSlot) : client_slot(client, kErrorSlot));
}

/// What the client made of the weights becomes what the server makes of the bytes: the update.
std::vector<std::byte> UpdateEncoder::encode(const TensorState& tensor,
                                             const ClientUpdate& update) {
  const auto elements = static_cast<std::size_t>(tensor.elements());
  std::vector<float> values(elements);
  const std::span<float> weights(tensor.master.as<float>(), elements);
  const float* start = slot_of(tensor, kStartSlot).as<float>();
  float* error = codec_->keeps_error ? error_of(tensor, update.client).as<float>() : nullptr;
  for (std::size_t i = 0; i < elements; ++i)
    values[i] = weights[i] - start[i] + (error != nullptr ? error[i] : 0);
  std::vector<std::byte> bytes(static_cast<std::size_t>(codec_->bytes(tensor.elements())));
  const Philox chance(static_cast<std::uint64_t>(config_.train.seed),
                      detail::concat("codec, round ", update.round, ", client ", update.client),
                      tensor.name);
  codec_->encode(values, {chance}, bytes);
  codec_->decode(bytes, weights);
  for (std::size_t i = 0; error != nullptr && i < elements; ++i) error[i] = values[i] - weights[i];
  return bytes;
}

void UpdateEncoder::send(const std::vector<const TensorState*>& tensors, const ClientUpdate& update,
                         const std::function<void()>& encoded, const Deliver& deliver) {
  const bool masked = update.masks != nullptr;
  const double scale = masked && config_.edge.clip > 0 ? clip_scale() : 1;
  std::vector<std::vector<std::byte>> bytes;
  for (const TensorState* tensor : tensors)
    if (codec_ != nullptr) bytes.push_back(encode(*tensor, update));
  encoded();
  for (const std::vector<std::byte>& tensor : bytes) deliver(tensor);
  for (const TensorState* tensor : tensors) {
    if (codec_ != nullptr) continue;
    if (masked) {
      send_masked(*tensor, update, scale, deliver);
    } else {
      deliver(std::as_bytes(whole_elements(*tensor, tensor->master)));
    }
  }
}

/// The server sees but the sum, so the client makes its update as long and as heavy as it counts.
void UpdateEncoder::send_masked(const TensorState& tensor, const ClientUpdate& update, double scale,
                                const Deliver& deliver) {
  const double weight = update.weight * scale;
  const std::span<const float> now = whole_elements(tensor, tensor.master);
  const std::span<const float> start = whole_elements(tensor, slot_of(tensor, kStartSlot));
  std::vector<std::uint64_t> numbers;
  constexpr std::size_t kAtOnce = kStreamMessage / sizeof(std::uint64_t);
  for (std::size_t first = 0; first < now.size(); first += kAtOnce) {
    numbers.resize(std::min(kAtOnce, now.size() - first));
    for (std::size_t i = 0; i < numbers.size(); ++i)
      numbers[i] = fixed_change(weight * difference(now[first + i], start[first + i]), tensor.name,
                                update.client);
    update.masks->mask(tensor.name, first, numbers);
    deliver(std::as_bytes(std::span(numbers)));
  }
}

/// What an element changed by.
double UpdateEncoder::difference(float now, float start) const {
  return codec_ != nullptr ? now : static_cast<double>(now) - start;
}

/// The factor that makes the whole update at most edge.clip long; the same on all devices.
double UpdateEncoder::clip_scale() {
  std::vector<double> squares(names_.size());
  for (const TensorState& tensor : device_.tensors()) {
    if (!tensor.trained() || !device_.is_owner()) continue;
    double& sum = squares[std::ranges::lower_bound(names_, tensor.name) - names_.begin()];
    for_each_joint_run<2>(tensor, {tensor.master, slot_of(tensor, kStartSlot)},
                          [&](const auto& at, std::int64_t, std::int64_t length) {
                            for (std::int64_t i = 0; i < length; ++i) {
                              const double change = difference(at[0][i], at[1][i]);
                              sum += change * change;
                            }
                          });
  }
  world_.combine(squares, comm::Combine::Sum);
  double sum = 0;
  for (const double square : squares) sum += square;
  const double norm = std::sqrt(sum);
  return norm > config_.edge.clip ? config_.edge.clip / norm : 1;
}

}  // namespace cleave::train
