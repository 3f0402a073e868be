#include "cleave/train/step/round_exchange.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <numeric>

#include "cleave/train/step/slot_elements.h"

namespace cleave::train {
namespace {

/// Loss, norm of the gradient, and whether to stop.
using TurnNumbers = std::array<double, 3>;

ClientResult result_of(const TurnNumbers& numbers) {
  return {.loss = numbers[0], .gradient_norm = numbers[1], .stop = numbers[2] > 0};
}

std::span<std::byte> bytes_of(const engine::TensorState& tensor) {
  return std::as_writable_bytes(whole_elements(tensor, tensor.master));
}

}  // namespace

RoundExchange::RoundExchange(comm::Communicator& processes, int clients, std::optional<int> own)
    : processes_(processes), own_(own) {
  std::vector<double> numbers(static_cast<std::size_t>(clients));
  if (own) numbers[static_cast<std::size_t>(*own)] = processes.rank();
  processes.combine(numbers, comm::Combine::Sum);
  for (const double process : numbers) process_of_.push_back(static_cast<int>(process));
}

void RoundExchange::send_result(const ClientResult& result) {
  const TurnNumbers numbers = {result.loss, result.gradient_norm, result.stop ? 1.0 : 0.0};
  processes_.send(std::as_bytes(std::span(numbers)), 0, kResultTag).wait();
}

std::vector<ClientResult> RoundExchange::receive_turns(std::span<const int> clients,
                                                       std::int64_t bytes, const Take& take) {
  std::vector<ClientResult> results;
  for (std::size_t first = 0; first < clients.size(); first += kAtOnce) {
    const auto some = clients.subspan(first, std::min(kAtOnce, clients.size() - first));
    std::vector<TurnNumbers> numbers(some.size());
    std::vector<comm::Pending> turns;
    std::vector<ReceiveStream> updates;
    updates.reserve(some.size());  // a message that is on its way stays where it is
    for (std::size_t i = 0; i < some.size(); ++i) {
      const int process = process_of(some[i]);
      turns.push_back(
          processes_.receive(std::as_writable_bytes(std::span(numbers[i])), process, kResultTag));
      updates.emplace_back(processes_, process, kUpdateTag, bytes);
    }
    for (std::size_t i = 0; i < some.size(); ++i) {
      turns[i].wait();
      results.push_back(result_of(numbers[i]));
    }
    while (!updates.back().done())  // all are as long
      for (std::size_t i = 0; i < some.size(); ++i) take(first + i, updates[i].next());
  }
  return results;
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

std::vector<int> RoundExchange::here() const {
  std::vector<int> clients;
  for (int client = 0; client < std::ssize(process_of_); ++client)
    if (process_of(client) != 0) clients.push_back(client);
  return clients;
}

std::vector<int> RoundExchange::others() const {
  std::vector<int> processes(static_cast<std::size_t>(processes_.size() - 1));
  std::iota(processes.begin(), processes.end(), 1);
  return processes;
}

void RoundExchange::share_weights(const Tensors& tensors) {
  if (is_server()) {
    SendStream out = send_weights();
    for (const engine::TensorState* tensor : tensors) out.put(bytes_of(*tensor));
    return out.end();
  }
  std::int64_t bytes = 0;
  for (const engine::TensorState* tensor : tensors) bytes += std::ssize(bytes_of(*tensor));
  ReceiveStream in = receive_weights(bytes);
  std::span<std::byte> message;
  for (const engine::TensorState* tensor : tensors) {
    for (std::span<std::byte> to = bytes_of(*tensor); !to.empty();) {
      if (message.empty()) message = in.next();
      const std::size_t some = std::min(to.size(), message.size());
      std::memcpy(to.data(), message.data(), some);
      to = to.subspan(some);
      message = message.subspan(some);
    }
  }
}

void RoundExchange::share_numbers(std::span<double> numbers) {
  const std::span<std::byte> bytes = std::as_writable_bytes(numbers);
  if (!is_server()) return processes_.receive(bytes, 0, kNumbersTag).wait();
  std::vector<comm::Pending> sent;
  for (const int process : others()) sent.push_back(processes_.send(bytes, process, kNumbersTag));
  for (comm::Pending& message : sent) message.wait();
}

}  // namespace cleave::train
