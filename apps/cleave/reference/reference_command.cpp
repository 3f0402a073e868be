#include <algorithm>
#include <array>
#include <filesystem>
#include <memory>

#include "command.h"
#include "files.h"
#include "reference/completion.h"
#include "reference/man_page.h"

#include "cleave/base/check.h"
#include "cleave/train/config/config_reference.h"

namespace cleave::app {
namespace {

struct ReferenceFlags {
  std::string what;
  std::vector<std::string> words;
  std::string directory;
};

constexpr std::array<std::string_view, 5> kWhat = {"config", "man", "bash", "zsh", "fish"};

void write_pages(const Verb& verb, const Verb& root, const std::filesystem::path& directory) {
  write_file((directory / (man_name(verb) + ".1")).string(), man_page(verb, root));
  for (const Verb& inner : verb.verbs) write_pages(inner, root, directory);
}

void print_reference(const CLI::App& app, const ReferenceFlags& flags) {
  require(std::ranges::find(kWhat, flags.what) != kWhat.end(), "there is no reference '",
          flags.what, "'; known are config, man, bash, zsh, fish");
  require(flags.what == "man" || (flags.words.empty() && flags.directory.empty()),
          "only man takes a verb or --output; leave them out with ", flags.what);
  const Verb root = describe_verbs(app);
  if (flags.what == "config") return write_file("", train::config_reference());
  if (flags.what != "man") return write_file("", completion(flags.what, root));
  if (flags.directory.empty()) return write_file("", man_page(find_verb(root, flags.words), root));
  write_pages(root, root, flags.directory);
}

}  // namespace

void add_reference_command(CLI::App& app) {
  auto flags = std::make_shared<ReferenceFlags>();
  CLI::App* verb = app.add_subcommand(
      "reference", "Print the keys of a config, man pages, or completion for a shell.");
  verb->add_option("what", flags->what, "config, man, bash, zsh or fish")->required();
  verb->add_option("verb", flags->words, "Of man: the verb to describe (default: the program)");
  verb->add_option("--output", flags->directory, "Of man: write every page into this directory");
  verb->footer(
      "Examples:\n"
      "  cleave reference man train | man -l -\n"
      "  source <(cleave reference bash)");
  verb->callback([flags, &app] { print_reference(app, *flags); });
}

}  // namespace cleave::app
