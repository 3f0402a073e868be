#include "cleave/train/step/round_exchange.h"

#include <algorithm>

#include "cleave/train/step/slot_elements.h"

namespace cleave::train {
namespace {

constexpr int kResultTag = 1;
constexpr int kUpdateTag = 2;
constexpr int kLetterTag = 3;

}  // namespace

RoundExchange::RoundExchange(comm::Communicator& processes, int clients, std::optional<int> own)
    : processes_(processes), own_(own) {
  std::vector<double> numbers(static_cast<std::size_t>(clients));
  if (own) numbers[static_cast<std::size_t>(*own)] = processes.rank();
  processes.combine(numbers, comm::Combine::Sum);
  for (const double process : numbers) process_of_.push_back(static_cast<int>(process));
}

void RoundExchange::send_result(const ClientResult& result) {
  const double numbers[] = {result.loss, result.gradient_norm, result.stop ? 1.0 : 0.0};
  processes_.send(std::as_bytes(std::span(numbers)), 0, kResultTag).wait();
}

ClientResult RoundExchange::receive_turn(int client) {
  double numbers[3] = {};
  processes_.receive(std::as_writable_bytes(std::span(numbers)), process_of(client), kResultTag)
      .wait();
  return {.loss = numbers[0], .gradient_norm = numbers[1], .stop = numbers[2] > 0};
}

// Both ends hand over the same numbers of bytes at a time, and cut each at multiples of kMessage.

void RoundExchange::send_update(std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const auto some = bytes.first(std::min(bytes.size(), kMessage));
    processes_.send(some, 0, kUpdateTag).wait();
    bytes = bytes.subspan(some.size());
  }
}

void RoundExchange::receive_update(int client, std::int64_t bytes, const Take& take) {
  message_.resize(kMessage);
  for (std::int64_t left = bytes; left > 0;) {
    const auto some =
        std::span(message_).first(static_cast<std::size_t>(std::min<std::int64_t>(left, kMessage)));
    processes_.receive(some, process_of(client), kUpdateTag).wait();
    take(some);
    left -= std::ssize(some);
  }
}

void RoundExchange::to_server(std::span<const std::byte> bytes) {
  processes_.send(bytes, 0, kLetterTag).wait();
}
void RoundExchange::from_server(std::span<std::byte> bytes) {
  processes_.receive(bytes, 0, kLetterTag).wait();
}
void RoundExchange::to_client(int client, std::span<const std::byte> bytes) {
  processes_.send(bytes, process_of(client), kLetterTag).wait();
}
void RoundExchange::from_client(int client, std::span<std::byte> bytes) {
  processes_.receive(bytes, process_of(client), kLetterTag).wait();
}

void RoundExchange::share_weights(const Tensors& tensors) {
  for (const engine::TensorState* tensor : tensors) {
    std::span<std::byte> bytes = std::as_writable_bytes(whole_elements(*tensor, tensor->master));
    while (!bytes.empty()) {
      const auto some = bytes.first(std::min(bytes.size(), kMessage));
      processes_.broadcast(some, 0).wait();
      bytes = bytes.subspan(some.size());
    }
  }
}

void RoundExchange::share_numbers(std::span<double> numbers) {
  processes_.broadcast(std::as_writable_bytes(numbers), 0).wait();
}

}  // namespace cleave::train
