#include <exception>

#include "command.h"
#include <fmt/format.h>

#include "cleave/base/check.h"

namespace {

using cleave::app::Exit;

int fail(const std::exception& error, Exit code) {
  fmt::print(stderr, "cleave: {}\n", error.what());
  return static_cast<int>(code);
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app("cleave trains neural networks that are too big for any one device.", "cleave");
  app.require_subcommand(1);
  app.footer(
      "Exit codes: 0 done; 1 failed; 2 bad usage or config; 3 does not fit; 4 a device was lost.");

  Exit answer = Exit::Done;
  cleave::app::add_commands(app, answer);

  try {
    app.parse(argc, argv);
  } catch (const CLI::CallForHelp& help) {
    return app.exit(help);
  } catch (const CLI::ParseError& error) {
    fmt::print(stderr, "cleave: {}; see cleave --help\n", error.what());
    return static_cast<int>(Exit::Usage);
  } catch (const cleave::UserError& error) {
    return fail(error, Exit::Usage);
  } catch (const cleave::DoesNotFit& error) {
    return fail(error, Exit::DoesNotFit);
  } catch (const cleave::DeviceLost& error) {
    return fail(error, Exit::DeviceLost);
  } catch (const std::exception& error) {
    return fail(error, Exit::Failed);
  }
  return static_cast<int>(answer);
}
