#include <algorithm>
#include <exception>
#include <new>
#include <string>
#include <vector>

#include "command.h"
#include "files.h"
#include "reference/help_format.h"
#include "streams.h"
#include <fmt/format.h>

#include "cleave/base/check.h"
#include "cleave/base/nearest.h"

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

/// Names the first word that should be a verb and is none; CLI11 would miss a verb instead.
void check_verbs(const CLI::App& app, const std::vector<std::string>& words) {
  const CLI::App* at = &app;
  for (const std::string& word : words) {
    const std::vector<const CLI::App*> verbs = at->get_subcommands({});
    if (verbs.empty() || word.starts_with('-')) return;
    std::vector<std::string_view> names;
    std::string known;
    for (const CLI::App* verb : verbs) {
      names.push_back(verb->get_name());
      known += (known.empty() ? "" : ", ") + verb->get_name();
    }
    // A verb may take a file as well as verbs of its own.
    const bool takes_words = std::ranges::any_of(
        at->get_options(), [](const CLI::Option* option) { return option->get_positional(); });
    if (takes_words && std::ranges::count(names, word) == 0) return;
    require(std::ranges::count(names, word) == 1, "there is no verb '", word, "'",
            did_you_mean(word, names), "; known are ", known);
    at = at->get_subcommand(word);
  }
}

/// "cleave bench step": what was to be done.
std::string verb_of(const CLI::App& app) {
  std::string name = app.get_name();
  for (const CLI::App* verb : app.get_subcommands()) name += " " + verb_of(*verb);
  return name;
}

}  // namespace cleave::app

int main(int argc, char** argv) {
  cleave::app::open_standard_streams();
  cleave::app::survive_file_limit();
  CLI::App app("cleave trains neural networks that are too big for any one device.", "cleave");
  app.formatter(cleave::app::help_format());
  app.set_version_flag("--version", cleave::app::version_text(), "Print the version and exit");
  app.require_subcommand(1);
  app.footer(
      "First steps:\n"
      "  cleave init text           # writes run.toml, and something to learn from\n"
      "  cleave train run.toml\n"
      "  cleave generate out --prompt '12 + 30 ='\n"
      "\nExit codes: 0 done; 1 failed; 2 bad usage or config; 3 does not fit; 4 a device was "
      "lost.");

  using cleave::app::Exit;
  Exit answer = Exit::Done;
  cleave::app::add_commands(app, answer);
  for (CLI::App* verb : app.get_subcommands({})) verb->group("Verbs");

  try {
    if (argc == 1) {
      fmt::print("{}", app.help());
      cleave::app::finish_output();
      return static_cast<int>(Exit::Done);
    }
    cleave::app::check_verbs(app, std::vector<std::string>(argv + 1, argv + argc));
    try {
      app.parse(argc, argv);
    } catch (const CLI::Success& answered) {  // --help, --version
      app.exit(answered);
    }
    cleave::app::finish_output();
  } catch (const CLI::ParseError& error) {
    cleave::app::complain("cleave: {}; see {} --help\n", error.what(), cleave::app::verb_of(app));
    return static_cast<int>(Exit::Usage);
  } catch (const std::exception& error) {
    cleave::app::complain("cleave: {}\n", cleave::app::sentence_of(error));
    return static_cast<int>(cleave::app::exit_code_of(error));
  }
  return static_cast<int>(answer);
}
