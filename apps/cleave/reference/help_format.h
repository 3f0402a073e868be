#pragma once

#include <memory>

#include <CLI/CLI.hpp>

namespace cleave::app {

/// How --help looks: at most 80 columns, names to the left, what they mean beside them.
std::shared_ptr<CLI::FormatterBase> help_format();

/// `cleave help [VERB...]`.
void add_help_command(CLI::App& app);

}  // namespace cleave::app
