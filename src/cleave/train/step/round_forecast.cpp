#include "cleave/train/step/round_forecast.h"

#include <algorithm>
#include <chrono>
#include <utility>
#include <vector>

#include "cleave/base/median.h"

namespace cleave::train {
namespace {

using Clock = std::chrono::steady_clock;

/// Sent in place of weights and updates: nothing to speak of, or enough for the rate of a link.
constexpr std::int64_t kLittle = 64, kMuch = 1 << 18;
constexpr int kTrials = 3;  ///< after one that lets connections find their pace

/// Puts zeros instead of something that is so long.
void put_zeros(SendStream stream, std::int64_t bytes) {
  stream.put(std::vector<std::byte>(static_cast<std::size_t>(bytes)));
  stream.end();
}

/// The messages of a round, without its work.
void play_empty_round(RoundExchange& exchange, const RoundLoad& load) {
  double numbers[3] = {};
  exchange.share_numbers(numbers);
  if (exchange.is_server()) {
    put_zeros(exchange.send_weights(), load.down);
    exchange.receive_turns(exchange.here(), load.up, [](std::size_t, auto) {});
    return;
  }
  for (ReceiveStream in = exchange.receive_weights(load.down); !in.done();) in.next();
  exchange.send_result({});
  put_zeros(exchange.send_update(), load.up);
}

/// The median of what it takes.
double seconds_of(RoundExchange& exchange, const RoundLoad& load) {
  std::vector<double> seconds;
  for (int trial = 0; trial <= kTrials; ++trial) {
    const Clock::time_point start = Clock::now();
    play_empty_round(exchange, load);
    if (trial > 0) seconds.push_back(std::chrono::duration<double>(Clock::now() - start).count());
  }
  return median(std::move(seconds));
}

/// The largest of the clients' numbers, on the server.
double slowest_of(RoundExchange& exchange, double own) {
  const std::span number(&own, 1);
  if (!exchange.is_server()) {
    exchange.to_server(std::as_bytes(number));
    return own;
  }
  double most = 0;
  for (const int client : exchange.here()) {
    exchange.from_client(client, std::as_writable_bytes(number));
    most = std::max(most, own);
  }
  return most;
}

}  // namespace

double forecast_round(RoundExchange& exchange, const RoundLoad& load, double local) {
  const double empty = seconds_of(exchange, {.down = kLittle, .up = kLittle});
  const double down = seconds_of(exchange, {.down = kMuch, .up = kLittle});
  const double up = seconds_of(exchange, {.down = kLittle, .up = kMuch});
  const double steps = slowest_of(exchange, local);
  if (!exchange.is_server()) return 0;
  const auto sending = [&](double seconds, std::int64_t bytes) {
    const double more = std::max(0.0, seconds - empty);
    return more * static_cast<double>(bytes) / static_cast<double>(kMuch - kLittle);
  };
  return empty + sending(down, load.down) + steps + sending(up, load.up);
}

}  // namespace cleave::train
