#pragma once

#include <cstdint>

#include "cleave/train/step/round_exchange.h"

namespace cleave::train {

/// What a round sends.
struct RoundLoad {
  std::int64_t down = 0;  ///< bytes to each client
  std::int64_t up = 0;    ///< bytes from each
};

/// Seconds that a round of all clients that are here will take: measured on the way of a round,
/// with little to send in place of weights and updates, and `local` for the steps of the slowest
/// client. All processes call it together, with their own `local`; the server's counts for nothing,
/// and it alone gets an answer, the others 0. What the server makes of the updates is not in it.
double forecast_round(RoundExchange& exchange, const RoundLoad& load, double local);

}  // namespace cleave::train
