#pragma once

#include <string>
#include <vector>

#include <CLI/CLI.hpp>

namespace cleave::app {

/// What --help, man pages and completion know of an argument.
struct Argument {
  std::string name;  ///< "--set", or the name of a positional
  std::string about;
  std::string otherwise;  ///< the default, if there is one to show
  bool takes_value = false;
  bool required = false;
  bool repeatable = false;
};

/// A verb as data: the one description from which all that is looked up is made.
struct Verb {
  std::string name;  ///< as typed: "cleave bench step"
  std::string about;
  std::string footer;
  std::vector<Argument> positionals;
  std::vector<Argument> options;
  std::vector<Verb> verbs;
  bool runs_command = false;  ///< all that follows its options is a command
};

/// The whole program, from the parser's own tables.
Verb describe_verbs(const CLI::App& app);

/// The verb of these words, such as {"bench", "step"}. Throws UserError if there is none.
const Verb& find_verb(const Verb& root, const std::vector<std::string>& words);

/// "cleave supervise [OPTIONS] COMMAND...": what is typed, in short.
std::string synopsis_of(const Verb& verb);

}  // namespace cleave::app
