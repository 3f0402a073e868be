#include "reference/verbs.h"

#include <algorithm>

#include "cleave/base/check.h"
#include "cleave/base/nearest.h"

namespace cleave::app {
namespace {

Argument describe_argument(const CLI::Option& option) {
  const bool positional = option.get_positional();
  std::string name = option.get_name(positional, false);
  if (!positional && !option.get_lnames().empty()) name = "--" + option.get_lnames().front();
  return {.name = std::move(name),
          .about = option.get_description(),
          .otherwise = option.get_default_str(),
          .takes_value = option.get_expected_max() > 0 && option.get_type_size_max() > 0,
          .required = option.get_required(),
          .repeatable = option.get_expected_max() > 1};
}

Verb describe_verb(const CLI::App& app, const std::string& before) {
  Verb verb{.name = before.empty() ? app.get_name() : before + " " + app.get_name(),
            .about = app.get_description(),
            .footer = app.get_footer(),
            .runs_command = app.get_prefix_command()};
  for (const CLI::Option* option : app.get_options()) {
    auto& list = option->get_positional() ? verb.positionals : verb.options;
    list.push_back(describe_argument(*option));
  }
  for (const CLI::App* inner : app.get_subcommands({}))
    verb.verbs.push_back(describe_verb(*inner, verb.name));
  return verb;
}

std::string last_word(const std::string& name) {
  return name.substr(name.rfind(' ') + 1);
}

}  // namespace

Verb describe_verbs(const CLI::App& app) {
  return describe_verb(app, "");
}

const Verb& find_verb(const Verb& root, const std::vector<std::string>& words) {
  const Verb* at = &root;
  for (const std::string& word : words) {
    const auto found =
        std::ranges::find(at->verbs, word, [](const Verb& verb) { return last_word(verb.name); });
    if (found == at->verbs.end()) {
      std::vector<std::string> names;
      for (const Verb& verb : at->verbs) names.push_back(last_word(verb.name));
      const std::vector<std::string_view> views(names.begin(), names.end());
      throw UserError(
          detail::concat("there is no verb '", word, "' of ", at->name, did_you_mean(word, views)));
    }
    at = &*found;
  }
  return *at;
}

std::string synopsis_of(const Verb& verb) {
  std::string text = verb.name;
  if (!verb.verbs.empty()) text += " VERB";
  for (const Argument& argument : verb.positionals)
    text += argument.required ? " " + argument.name : " [" + argument.name + "]";
  return text + (verb.runs_command ? " [OPTIONS] COMMAND..." : " [OPTIONS]");
}

}  // namespace cleave::app
