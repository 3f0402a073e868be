#include "cleave/train/step/round_exchange.h"

#include <algorithm>

namespace cleave::train {
namespace {

constexpr int kResultTag = 1;
constexpr int kWeightsTag = 2;

}  // namespace

RoundExchange::RoundExchange(comm::Communicator& processes, int clients, std::optional<int> own)
    : processes_(processes), own_(own) {
  std::vector<double> numbers(static_cast<std::size_t>(clients));
  if (own) numbers[static_cast<std::size_t>(*own)] = processes.rank();
  processes.combine(numbers, comm::Combine::Sum);
  for (const double process : numbers) process_of_.push_back(static_cast<int>(process));
}

void RoundExchange::send(const Tensors& tensors, const ClientResult& result) {
  const double numbers[] = {result.loss, result.gradient_norm, result.stop ? 1.0 : 0.0};
  processes_.send(std::as_bytes(std::span(numbers)), 0, kResultTag).wait();
  for (const engine::TensorState* tensor : tensors)
    processes_.send(std::as_bytes(packed(*tensor)), 0, kWeightsTag).wait();
}

ClientResult RoundExchange::receive(int client, const Tensors& tensors) {
  const int from = process_of_[static_cast<std::size_t>(client)];
  double numbers[3] = {};
  processes_.receive(std::as_writable_bytes(std::span(numbers)), from, kResultTag).wait();
  for (const engine::TensorState* tensor : tensors) {
    const std::span<float> weights = room_for(*tensor);
    processes_.receive(std::as_writable_bytes(weights), from, kWeightsTag).wait();
    unpack(weights, *tensor);
  }
  return {.loss = numbers[0], .gradient_norm = numbers[1], .stop = numbers[2] > 0};
}

void RoundExchange::share_weights(const Tensors& tensors) {
  for (const engine::TensorState* tensor : tensors) {
    const std::span<float> weights = is_server() ? packed(*tensor) : room_for(*tensor);
    processes_.broadcast(std::as_writable_bytes(weights), 0).wait();
    if (!is_server()) unpack(weights, *tensor);
  }
}

void RoundExchange::share_numbers(std::span<double> numbers) {
  processes_.broadcast(std::as_writable_bytes(numbers), 0).wait();
}

std::span<float> RoundExchange::room_for(const engine::TensorState& tensor) {
  const auto elements = static_cast<std::size_t>(tensor.elements());
  if (weights_.size() < elements) weights_.resize(elements);
  return std::span(weights_).first(elements);
}

std::span<float> RoundExchange::packed(const engine::TensorState& tensor) {
  const std::span<float> weights = room_for(tensor);
  auto* at = weights.data();
  tensor.for_each_weight_run(
      [&](std::int64_t, std::span<float> run) { at = std::ranges::copy(run, at).out; });
  return weights;
}

void RoundExchange::unpack(std::span<const float> weights, const engine::TensorState& tensor) {
  tensor.set_weight([&](std::int64_t, std::span<float> run) {
    std::ranges::copy(weights.first(run.size()), run.begin());
    weights = weights.subspan(run.size());
  });
}

}  // namespace cleave::train
