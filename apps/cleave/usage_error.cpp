#include "usage_error.h"

#include <string_view>
#include <vector>

#include "cleave/base/nearest.h"

namespace cleave::app {
namespace {

const CLI::App& innermost_verb(const CLI::App& app) {
  const std::vector<CLI::App*> verbs = app.get_subcommands();
  return verbs.empty() ? app : innermost_verb(*verbs.front());
}

/// Of words that nobody takes, the first.
std::string unknown_word(const CLI::App& app, const std::string& word) {
  if (!word.starts_with('-')) return verb_of(app) + " has no use for '" + word + "'; leave it out";
  const std::string name = word.substr(0, word.find('='));
  std::vector<std::string> known;
  for (const CLI::Option* option : innermost_verb(app).get_options())
    for (const std::string& letters : option->get_lnames()) known.push_back("--" + letters);
  return verb_of(app) + " has no option " + name +
         did_you_mean(name, std::vector<std::string_view>(known.begin(), known.end()));
}

std::string missing_verb(const CLI::App& verb) {
  std::string known;
  for (const CLI::App* choice : verb.get_subcommands({}))
    known += (known.empty() ? "" : ", ") + choice->get_name();
  return verb.get_name() + " needs a verb; known are " + known;
}

/// A value that is no number; CLI11 has the name of its option, " = " and the value.
std::string bad_number(const CLI::App& verb, std::string_view name_and_value) {
  const std::size_t middle = name_and_value.find(" = ");
  const std::string name(name_and_value.substr(0, middle));
  const std::string value(name_and_value.substr(middle + 3));
  const CLI::Option* option = verb.get_option_no_throw(name);
  if (option == nullptr) return name + " cannot be " + value;
  if (option->get_expected_max() == 0) return name + " takes no value; leave out " + value;
  const bool whole = option->get_type_name() != "FLOAT";
  return name + " " + value + " must be a " + (whole ? "whole number" : "number") +
         " that is not too large";
}

}  // namespace

std::string verb_of(const CLI::App& app) {
  std::string name = app.get_name();
  for (const CLI::App* verb : app.get_subcommands()) name += " " + verb_of(*verb);
  return name;
}

std::string sentence_of(const CLI::App& app, const CLI::ParseError& error) {
  constexpr std::string_view kNotConverted = "Could not convert: ";
  const std::string said = error.what();
  const CLI::App& verb = innermost_verb(app);
  const std::vector<std::string> left = app.remaining(/*recurse=*/true);
  // Its name is that of the verb.
  const bool too_much = dynamic_cast<const CLI::ExtrasError*>(&error) != nullptr;
  if (too_much && !left.empty()) return unknown_word(app, left.front());
  if (said == "A subcommand is required")
    return left.empty() ? missing_verb(verb) : unknown_word(app, left.front());
  if (error.get_name() == "ArgumentMismatch" && said.ends_with(" missing"))
    return said.substr(0, said.find(':')) + " needs a value";
  if (said.starts_with(kNotConverted) && said.find(" = ") != said.npos)
    return bad_number(verb, std::string_view(said).substr(kNotConverted.size()));
  return said;
}

}  // namespace cleave::app
