#pragma once

#include <string>

#include "command.h"
#include <CLI/CLI.hpp>

namespace cleave::app {

/// The words of a program with verbs: prints its help, finds the verb that is meant, and answers
/// with an exit code, whatever its verbs are.
class CommandLine {
 public:
  /// `name` is what errors begin with.
  CommandLine(const std::string& name, const std::string& purpose, const std::string& footer);

  CLI::App& app() { return app_; }

  /// What a verb sets that says no without an error.
  Exit& answer() { return answer_; }

  /// Runs the verb that the words name; without words it prints the help. Returns the exit code.
  int run(int argc, char** argv);

 private:
  void parse(int argc, char** argv);

  CLI::App app_;
  Exit answer_ = Exit::Done;
};

}  // namespace cleave::app
