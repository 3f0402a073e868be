#pragma once

#include <CLI/CLI.hpp>

namespace cleave::app {

/// `cleave edge simulate`: rounds of many clients in virtual time, without training.
void add_edge_simulate_command(CLI::App& edge);

}  // namespace cleave::app
