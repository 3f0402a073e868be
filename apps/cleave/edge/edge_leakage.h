#pragma once

#include <CLI/CLI.hpp>

namespace cleave::app {

/// `cleave edge leakage`.
void add_edge_leakage_command(CLI::App& edge);

}  // namespace cleave::app
