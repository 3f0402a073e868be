#include "command_line.h"

#include <algorithm>
#include <exception>
#include <new>
#include <vector>

#include "files.h"
#include "reference/help_format.h"
#include "streams.h"
#include "usage_error.h"
#include <fmt/format.h>

#include "cleave/base/check.h"
#include "cleave/base/nearest.h"
#include "cleave/base/version.h"

namespace cleave::app {

Exit exit_code_of(const std::exception& error) {
  if (dynamic_cast<const UserError*>(&error) != nullptr) return Exit::Usage;
  if (dynamic_cast<const DoesNotFit*>(&error) != nullptr) return Exit::DoesNotFit;
  if (dynamic_cast<const DeviceLost*>(&error) != nullptr) return Exit::DeviceLost;
  if (dynamic_cast<const std::bad_alloc*>(&error) != nullptr) return Exit::DoesNotFit;
  return Exit::Failed;
}

std::string sentence_of(const std::exception& error) {
  if (dynamic_cast<const std::bad_alloc*>(&error) == nullptr) return error.what();
  return "the system gives this process no more memory; use a smaller model or more devices, or "
         "raise its limit (ulimit -v)";
}

namespace {

/// Names the first word that should be a verb and is none; CLI11 would miss a verb instead.
void check_verbs(const CLI::App& app, const std::vector<std::string>& words) {
  const CLI::App* at = &app;
  for (const std::string& word : words) {
    const std::vector<const CLI::App*> verbs = at->get_subcommands({});
    if (verbs.empty() || word.starts_with('-')) return;
    std::vector<std::string_view> names;
    for (const CLI::App* verb : verbs) names.push_back(verb->get_name());
    // A verb may take a file as well as verbs of its own.
    const bool takes_words = std::ranges::any_of(
        at->get_options(), [](const CLI::Option* option) { return option->get_positional(); });
    if (takes_words && std::ranges::count(names, word) == 0) return;
    require(std::ranges::count(names, word) == 1, "there is no verb '", word, "'",
            known_are(word, names));
    at = at->get_subcommand(word);
  }
}

}  // namespace

CommandLine::CommandLine(const std::string& name, const std::string& purpose,
                         const std::string& footer)
    : app_(purpose, name) {
  app_.formatter(help_format());
  app_.set_version_flag("--version", fmt::format("{} {}", name, version()),
                        "Print the version and exit");
  app_.require_subcommand(1);
  app_.footer(
      footer +
      "\nExit codes: 0 done; 1 failed; 2 bad usage or config; 3 does not fit; 4 a device was "
      "lost.");
}

void CommandLine::parse(int argc, char** argv) {
  if (argc == 1) {
    fmt::print("{}", app_.help());
    return finish_output();
  }
  check_verbs(app_, std::vector<std::string>(argv + 1, argv + argc));
  try {
    app_.parse(argc, argv);
  } catch (const CLI::Success& answered) {  // --help, --version
    app_.exit(answered);
  }
  finish_output();
}

int CommandLine::run(int argc, char** argv) {
  for (CLI::App* verb : app_.get_subcommands({})) verb->group("Verbs");
  try {
    parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    complain("{}: {}; see {} --help\n", app_.get_name(), sentence_of(app_, error), verb_of(app_));
    return static_cast<int>(Exit::Usage);
  } catch (const std::exception& error) {
    complain("{}: {}\n", app_.get_name(), sentence_of(error));
    return static_cast<int>(exit_code_of(error));
  }
  return static_cast<int>(answer_);
}

}  // namespace cleave::app
