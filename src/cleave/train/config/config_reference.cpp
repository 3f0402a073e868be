#include "cleave/train/config/config_reference.h"

#include <string_view>

#include <fmt/format.h>

#include "cleave/base/wrap.h"
#include "cleave/train/config/config_schema.h"

namespace cleave::train {
namespace {

constexpr std::size_t kIndent = 21;  ///< where the explanation of a key begins in --help

/// A cell of a Markdown table ends at a bar.
std::string cell(std::string_view text) {
  std::string out;
  for (const char c : text) out += c == '|' ? std::string("\\|") : std::string(1, c);
  return out;
}

std::string since_of(const Key& key) {
  return key.since == kFirstVersion ? "" : fmt::format(" (since {})", key.since);
}

constexpr std::string_view kPreface =
    "# Every key of a config\n"
    "\n"
    "Made by `cleave reference config` from the table that reads configs; `cleave train --help` "
    "shows\n"
    "the same. A config is a TOML file; `--set section.key=value` overrides it, and what is left "
    "out has\n"
    "the default below. `cleave train run.toml --print-config` shows what a run will use, and\n"
    "`cleave init` writes a config to begin with.\n"
    "\n"
    "A first line `cleave = \"0.1\"` says for which version a config was written: an older cleave "
    "then\n"
    "says that it is too old, instead of stumbling over a key that it does not know. Keys are "
    "there\n"
    "since 0.1 unless their meaning says since when.\n";

}  // namespace

std::string config_help() {
  std::string text;
  std::string_view section;
  for (const Key& key : config_keys()) {
    if (section != key.section()) {
      section = key.section();
      text += fmt::format("{}[{}]\n", text.empty() ? "" : "\n", section);
    }
    text += fmt::format("  {:<{}} ", key.short_name(), kIndent - 3) +
            wrap(fmt::format("{} ({}; default {})", key.help, key.rule, default_of(key)), kIndent);
  }
  return text;
}

std::string config_reference() {
  std::string text(kPreface);
  std::string_view section;
  for (const Key& key : config_keys()) {
    if (section != key.section()) {
      section = key.section();
      text += fmt::format(
          "\n## [{}]\n\n| key | meaning | rule | default | example |\n"
          "| --- | --- | --- | --- | --- |\n",
          section);
    }
    text += fmt::format("| `{}` | {}{} | {} | {} | `{} = {}` |\n", key.short_name(), cell(key.help),
                        since_of(key), cell(key.rule), cell(default_of(key)), key.short_name(),
                        cell(example_of(key)));
  }
  return text;
}

}  // namespace cleave::train
