#include "reference/man_page.h"

#include <algorithm>

#include <fmt/format.h>

#include "cleave/base/version.h"

namespace cleave::app {
namespace {

/// Text that roff takes as it is: no escapes, no requests, hyphens that can be copied.
std::string roff(std::string_view text) {
  std::string out;
  bool at_start = true;
  for (const char c : text) {
    if (at_start && (c == '.' || c == '\'')) out += "\\&";
    if (c == '\\')
      out += "\\e";
    else if (c == '-')
      out += "\\-";
    else
      out += c;
    at_start = c == '\n';
  }
  return out;
}

std::string upper(std::string text) {
  std::ranges::transform(text, text.begin(), [](unsigned char c) { return std::toupper(c); });
  return text;
}

std::string argument_lines(const Argument& argument) {
  std::string text = fmt::format(".TP\n\\fB{}\\fR", roff(argument.name));
  if (argument.takes_value && argument.name.starts_with('-')) text += " \\fIVALUE\\fR";
  text += '\n' + roff(argument.about);
  if (argument.repeatable && argument.name.starts_with('-')) text += " May be given several times.";
  if (!argument.otherwise.empty()) text += fmt::format(" Default: {}.", roff(argument.otherwise));
  return text + '\n';
}

std::string section(std::string_view heading, const std::vector<Argument>& arguments) {
  if (arguments.empty()) return "";
  std::string text = fmt::format(".SH {}\n", heading);
  for (const Argument& argument : arguments) text += argument_lines(argument);
  return text;
}

/// What a user looks for next: the verbs below, else the program itself.
std::string see_also(const Verb& verb, const Verb& root) {
  std::string text;
  const auto add = [&](const Verb& other) {
    if (!text.empty()) text += ",\n";
    text += fmt::format(".BR {} (1)", roff(man_name(other)));
  };
  if (&verb != &root) add(root);
  for (const Verb& inner : verb.verbs) add(inner);
  return text.empty() ? "" : ".SH SEE ALSO\n" + text + '\n';
}

std::string verb_lines(const Verb& verb) {
  if (verb.verbs.empty()) return "";
  std::string text = ".SH VERBS\n";
  for (const Verb& inner : verb.verbs)
    text += fmt::format(".TP\n\\fB{}\\fR\n{}\n", roff(inner.name), roff(inner.about));
  return text;
}

}  // namespace

std::string man_name(const Verb& verb) {
  std::string name = verb.name;
  std::ranges::replace(name, ' ', '-');
  return name;
}

std::string man_page(const Verb& verb, const Verb& root) {
  std::string text = fmt::format(".TH {} 1 \"\" \"cleave {}\" \"cleave\"\n",
                                 roff(upper(man_name(verb))), version());
  text += fmt::format(".SH NAME\n{} \\- {}\n", roff(man_name(verb)), roff(verb.about));
  text += fmt::format(".SH SYNOPSIS\n.B {}\n", roff(synopsis_of(verb)));
  text += verb_lines(verb);
  text += section("ARGUMENTS", verb.positionals);
  text += section("OPTIONS", verb.options);
  if (!verb.footer.empty()) text += fmt::format(".SH NOTES\n.nf\n{}\n.fi\n", roff(verb.footer));
  return text + see_also(verb, root);
}

}  // namespace cleave::app
