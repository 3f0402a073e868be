#include "command.h"

namespace cleave::app {

void add_commands(CLI::App& app, Exit& /*answer*/) {
  add_version_command(app);
}

}  // namespace cleave::app
