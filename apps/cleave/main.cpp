#include <exception>

#include "command.h"
#include <fmt/format.h>

#include "cleave/base/check.h"

namespace cleave::app {

Exit exit_code_of(const std::exception& error) {
  if (dynamic_cast<const UserError*>(&error) != nullptr) return Exit::Usage;
  if (dynamic_cast<const DoesNotFit*>(&error) != nullptr) return Exit::DoesNotFit;
  if (dynamic_cast<const DeviceLost*>(&error) != nullptr) return Exit::DeviceLost;
  return Exit::Failed;
}

}  // namespace cleave::app

int main(int argc, char** argv) {
  CLI::App app("cleave trains neural networks that are too big for any one device.", "cleave");
  app.set_version_flag("--version", cleave::app::version_text(), "Print the version and exit");
  app.require_subcommand(1);
  app.footer(
      "Exit codes: 0 done; 1 failed; 2 bad usage or config; 3 does not fit; 4 a device was lost.");

  using cleave::app::Exit;
  Exit answer = Exit::Done;
  cleave::app::add_commands(app, answer);

  try {
    app.parse(argc, argv);
  } catch (const CLI::Success& answered) {  // --help, --version
    return app.exit(answered);
  } catch (const CLI::ParseError& error) {
    fmt::print(stderr, "cleave: {}; see cleave --help\n", error.what());
    return static_cast<int>(Exit::Usage);
  } catch (const std::exception& error) {
    fmt::print(stderr, "cleave: {}\n", error.what());
    return static_cast<int>(cleave::app::exit_code_of(error));
  }
  return static_cast<int>(answer);
}
