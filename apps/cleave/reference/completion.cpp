#include "reference/completion.h"

#include <fmt/format.h>

#include "cleave/base/check.h"
#include "cleave/train/config/config_schema.h"

namespace cleave::app {
namespace {

/// The text as a shell reads it between single quotes.
std::string shell_quoted(std::string_view text) {
  std::string out = "'";
  for (const char c : text) out += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return out + "'";
}

/// "bench step" of "cleave bench step"; nothing for the program itself.
std::string words_of(const Verb& verb) {
  const auto blank = verb.name.find(' ');
  return blank == verb.name.npos ? "" : verb.name.substr(blank + 1);
}

std::string last_word(const Verb& verb) {
  return verb.name.substr(verb.name.rfind(' ') + 1);
}

/// The first sentence, which is what a list of choices has room for.
std::string brief(std::string_view about) {
  return std::string(about.substr(0, about.find_first_of(";:\n")));
}

template <class Visit>
void each_verb(const Verb& verb, const Visit& visit) {
  visit(verb);
  for (const Verb& inner : verb.verbs) each_verb(inner, visit);
}

std::string all_keys() {
  std::string keys;
  for (const train::Key& key : train::config_keys()) {
    if (!keys.empty()) keys += ' ';
    keys += std::string(key.name) + '=';
  }
  return keys;
}

/// What may follow a verb: its own verbs, else its options.
std::string choices_of(const Verb& verb) {
  std::string choices;
  for (const Verb& inner : verb.verbs) choices += last_word(inner) + ' ';
  for (const Argument& option : verb.options) choices += option.name + ' ';
  if (!choices.empty()) choices.pop_back();
  return choices;
}

/// One branch per verb; `line` says what a shell does with its choices.
std::string branches(const Verb& root, std::string_view line) {
  std::string text;
  each_verb(root, [&](const Verb& verb) {
    text += fmt::format("    {}) {}={} ;;\n", shell_quoted(words_of(verb)), line,
                        shell_quoted(choices_of(verb)));
  });
  return text;
}

std::string known_words(const Verb& root) {
  std::string text;
  each_verb(root, [&](const Verb& verb) {
    if (&verb != &root) text += (text.empty() ? "" : "|") + shell_quoted(words_of(verb));
  });
  return text;
}

std::string bash(const Verb& root) {
  return fmt::format(
      R"(# bash completion for cleave; made by `cleave reference bash`.
_cleave() {{
  local word=${{COMP_WORDS[COMP_CWORD]}} before=${{COMP_WORDS[COMP_CWORD-1]}} verb= next choices= i
  for ((i = 1; i < COMP_CWORD; ++i)); do
    next="${{verb:+$verb }}${{COMP_WORDS[i]}}"
    case "$next" in {0}) verb=$next ;; *) break ;; esac
  done
  if [ "$before" = --set ]; then
    compopt -o nospace
    COMPREPLY=($(compgen -W {1} -- "$word"))
    return
  fi
  case "$verb" in
{2}  esac
  COMPREPLY=($(compgen -W "$choices" -- "$word"))
}}
complete -o default -F _cleave cleave
)",
      known_words(root), shell_quoted(all_keys()), branches(root, "choices"));
}

std::string zsh_choices(const Verb& verb) {
  std::string text;
  const auto add = [&](const std::string& name, const std::string& about) {
    std::string safe;
    for (const char c : brief(about)) safe += c == ':' ? std::string("\\:") : std::string(1, c);
    text += ' ' + shell_quoted(name + ':' + safe);
  };
  for (const Verb& inner : verb.verbs) add(last_word(inner), inner.about);
  for (const Argument& option : verb.options) add(option.name, option.about);
  return text;
}

std::string zsh(const Verb& root) {
  std::string cases;
  each_verb(root, [&](const Verb& verb) {
    cases +=
        fmt::format("    {}) choices=({} ) ;;\n", shell_quoted(words_of(verb)), zsh_choices(verb));
  });
  return fmt::format(
      R"(#compdef cleave
# zsh completion for cleave; made by `cleave reference zsh`.
_cleave() {{
  local verb next i
  local -a choices keys
  for ((i = 2; i < CURRENT; ++i)); do
    next="${{verb:+$verb }}${{words[i]}}"
    case "$next" in {0}) verb=$next ;; *) break ;; esac
  done
  if [[ ${{words[CURRENT-1]}} == --set ]]; then
    keys=({1})
    compadd -S '' -- $keys
    return
  fi
  case "$verb" in
{2}  esac
  _describe -o cleave choices
  _files
}}
_cleave "$@"
)",
      known_words(root), all_keys(), cases);
}

/// Holds if the words so far are those of `verb`.
std::string fish_condition(const Verb& verb) {
  const std::string words = words_of(verb);
  return words.empty() ? "__cleave_verb" : "__cleave_verb " + words;
}

std::string fish(const Verb& root) {
  std::string text = fmt::format(
      R"(# fish completion for cleave; made by `cleave reference fish`.
function __cleave_verb
  set -l known {0}
  set -l verb
  for word in (commandline -opc)[2..]
    set -l next (string join ' ' $verb $word)
    contains -- $next $known; or break
    set verb $verb $word
  end
  test "$verb" = "$argv"
end
)",
      [&] {
        std::string known;
        each_verb(root, [&](const Verb& v) {
          if (&v != &root) known += (known.empty() ? "" : " ") + shell_quoted(words_of(v));
        });
        return known;
      }());
  each_verb(root, [&](const Verb& verb) {
    const std::string condition = shell_quoted(fish_condition(verb));
    for (const Verb& inner : verb.verbs)
      text += fmt::format("complete -c cleave -f -n {} -a {} -d {}\n", condition, last_word(inner),
                          shell_quoted(brief(inner.about)));
    for (const Argument& option : verb.options) {
      const bool is_set = option.name == "--set";
      text += fmt::format("complete -c cleave -n {} -l {}{}{} -d {}\n", condition,
                          option.name.substr(2), option.takes_value ? " -r" : "",
                          is_set ? " -f -a " + shell_quoted(all_keys()) : "",
                          shell_quoted(brief(option.about)));
    }
  });
  return text;
}

}  // namespace

std::string completion(std::string_view shell, const Verb& root) {
  if (shell == "bash") return bash(root);
  if (shell == "zsh") return zsh(root);
  CLEAVE_CHECK(shell == "fish", "no completion for ", shell);
  return fish(root);
}

}  // namespace cleave::app
