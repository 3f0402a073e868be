#include "cleave/train/step/turns.h"

#include <cstddef>
#include <span>
#include <vector>

namespace cleave::train {
namespace {

std::vector<int> others_in(const comm::Communicator& processes, const RoundExchange& exchange) {
  if (!exchange.is_server()) return {processes.rank()};
  std::vector<int> others;
  for (const int client : exchange.here()) others.push_back(exchange.process_of(client));
  return others;
}

}  // namespace

Turns::Turns(comm::Communicator& processes, RoundExchange& exchange,
             std::chrono::nanoseconds patience)
    : exchange_(exchange),
      transport_(processes, others_in(processes, exchange)),
      pipeline_(transport_) {
  pipeline_.set_patience(patience);
}

void Turns::begin(int client) {
  transport_.face(exchange_.process_of(client));
  const std::byte turn{1};
  exchange_.to_client(client, std::span(&turn, 1));
}

void Turns::await() {
  std::byte turn{};
  exchange_.from_server(std::span(&turn, 1));
}

}  // namespace cleave::train
