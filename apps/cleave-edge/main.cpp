#include "command_line.h"
#include "streams.h"

/// The client program of small machines: it joins a server as an owner's device, and nothing else.
int main(int argc, char** argv) {
  cleave::app::open_standard_streams();
  cleave::app::survive_file_limit();
  cleave::app::CommandLine program(
      "cleave-edge",
      "cleave-edge takes part in a run of cleave serve with data that do not leave this machine.",
      "First steps:\n"
      "  cleave-edge join server.example:4242 --owner clinic-a --data records \\\n"
      "    --policy clinic-a.toml --invitation cleave1-…\n");
  cleave::app::add_join_command(program.app());
  cleave::app::add_version_command(program.app());
  return program.run(argc, argv);
}
