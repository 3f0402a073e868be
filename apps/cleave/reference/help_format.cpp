#include "reference/help_format.h"

#include <sstream>

#include "command.h"
#include "files.h"

#include "cleave/base/check.h"
#include "cleave/base/wrap.h"

namespace cleave::app {
namespace {

constexpr std::size_t kNames = 24;  ///< columns for names

/// "  name   what it means", wrapped.
std::string entry(const std::string& name, const std::string& about) {
  std::string line = "  " + name;
  if (line.size() >= kNames) line += '\n' + std::string(kNames, ' ');
  line.resize(std::max(line.size(), kNames), ' ');
  return line + wrap(about, kNames);
}

/// A command that is too long goes on in the next line, before a flag or a pipe.
std::string wrap_command(std::string line) {
  constexpr std::size_t kColumns = 80;
  std::string out;
  while (line.size() > kColumns) {
    const std::size_t end =
        std::max(line.rfind(" --", kColumns - 2) + 1, line.rfind(" | ", kColumns - 2) + 1);
    if (end <= line.find_first_not_of(' ')) break;
    out += line.substr(0, end) + "\\\n";
    line = "      " + line.substr(end);
  }
  return out + line + '\n';
}

/// The name of a flag that may have a value: CLI11 has "--resume{latest}", a reader
/// "--resume[=VALUE]".
std::string with_optional_value(const std::string& name) {
  const std::size_t brace = name.find('{');
  return brace == std::string::npos ? name : name.substr(0, brace) + "[=VALUE]";
}

class HelpFormat : public CLI::Formatter {
 public:
  HelpFormat() {
    label("Positionals", "Arguments");
    label("Subcommands", "Verbs");
    label("SUBCOMMAND", "VERB");
    label("TEXT", "VALUE");
    label("INT", "N");
    label("UINT", "N");
    label("FLOAT", "X");
  }

  std::string make_option(const CLI::Option* option, bool is_positional) const override {
    std::string name = with_optional_value(make_option_name(option, is_positional));
    std::string about = option->get_description();
    const bool takes_value = option->get_type_size() != 0 && option->get_expected_max() > 0;
    if (takes_value && !is_positional) {
      const std::string type = option->get_type_name();
      name += " " + get_label(type.substr(0, type.find(':')));  // not the choices after a colon
    }
    if (takes_value && !option->get_default_str().empty())
      about += " (default " + option->get_default_str() + ")";
    return entry(name, about);
  }

  std::string make_subcommand(const CLI::App* verb) const override {
    return entry(verb->get_name(), verb->get_description());
  }

  /// A verb that runs a command says that one follows.
  std::string make_usage(const CLI::App* app, std::string name) const override {
    std::string usage = CLI::Formatter::make_usage(app, std::move(name));
    if (app->get_prefix_command()) usage.insert(usage.find_last_not_of('\n') + 1, " COMMAND...");
    return usage;
  }

  std::string make_description(const CLI::App* app) const override {
    return wrap(app->get_description(), 0);
  }

  /// Wraps sentences, and examples, which are indented, as a shell reads them.
  std::string make_footer(const CLI::App* app) const override {
    std::string out;
    std::istringstream footer(app->get_footer());
    for (std::string line; std::getline(footer, line);)
      out += line.starts_with(' ') ? wrap_command(line) : wrap(line, 0);
    return out;
  }
};

}  // namespace

std::shared_ptr<CLI::FormatterBase> help_format() {
  return std::make_shared<HelpFormat>();
}

void add_help_command(CLI::App& app) {
  auto words = std::make_shared<std::vector<std::string>>();
  CLI::App* verb = app.add_subcommand("help", "Explain a verb, or list them all.");
  verb->add_option("verb", *words, "Such as train, or bench step");
  verb->footer("Example:\n  cleave help train");
  verb->callback([words, &app] {
    const CLI::App* at = &app;
    std::string name = app.get_name();
    for (const std::string& word : *words) {
      const auto inner = at->get_subcommands(
          [&](const CLI::App* candidate) { return candidate->get_name() == word; });
      require(!inner.empty(), "there is no verb '", word, "' of ", at->get_name(),
              "; see cleave help");
      at = inner.front();
      name += " " + word;
    }
    // App::help would explain the verb that was parsed, not this one.
    write_file("", at->get_formatter()->make_help(at, name, CLI::AppFormatMode::Normal));
  });
}

}  // namespace cleave::app
