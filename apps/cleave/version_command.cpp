#include <memory>

#include "command.h"
#include <fmt/format.h>

#include "cleave/base/version.h"

namespace cleave::app {

std::string version_text() {
  return fmt::format("cleave {}", version());
}

void add_version_command(CLI::App& app) {
  CLI::App* verb = app.add_subcommand("version", "Print the version.");
  verb->footer("Example: cleave version");
  auto json = std::make_shared<bool>(false);
  verb->add_flag("--json", *json, "Print one JSON object");
  verb->callback([json] {
    if (*json)
      fmt::print("{{\"version\": \"{}\"}}\n", version());
    else
      fmt::print("{}\n", version_text());
  });
}

}  // namespace cleave::app
