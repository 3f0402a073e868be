#include "command.h"
#include <fmt/format.h>

#include "cleave/base/version.h"

namespace cleave::app {

void add_version_command(CLI::App& app) {
  app.add_subcommand("version", "Print the version.")->callback([] {
    fmt::print("cleave {}\n", version());
  });
}

}  // namespace cleave::app
