#pragma once

#include <cstdint>
#include <vector>

#include "cleave/comm/tcp/server.h"

namespace cleave::app {

/// [candidate] bytes of memory: what the config gives to the seat (`given`: devices.memory), or
/// less if it offers less. The roomiest go first, after the server's own, so that those are left
/// out that are of least use.
std::vector<std::int64_t> budgets_of(const std::vector<std::int64_t>& given,
                                     std::vector<comm::Candidate>& candidates);

}  // namespace cleave::app
