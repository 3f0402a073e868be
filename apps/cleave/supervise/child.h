#pragma once

#include <string>
#include <vector>

namespace cleave::app {

/// Runs a command to its end and says with which code it ended; 128 + n if a signal n ended it.
/// SIGINT, SIGTERM and SIGUSR1 are passed on. Throws UserError if there is no such program.
int run_child(const std::vector<std::string>& words);

/// Whether one of these signals has come.
bool was_told_to_end();

}  // namespace cleave::app
