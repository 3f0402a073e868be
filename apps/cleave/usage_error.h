#pragma once

#include <string>

#include <CLI/CLI.hpp>

namespace cleave::app {

/// "cleave bench step": the verb that the words asked for, as far as they were understood.
std::string verb_of(const CLI::App& app);

/// What is wrong with the words, as a sentence that names the option, its value and the rule.
std::string sentence_of(const CLI::App& app, const CLI::ParseError& error);

}  // namespace cleave::app
