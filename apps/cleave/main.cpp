#include "command_line.h"
#include "streams.h"

int main(int argc, char** argv) {
  cleave::app::open_standard_streams();
  cleave::app::survive_file_limit();
  cleave::app::CommandLine program(
      "cleave", "cleave trains neural networks that are too big for any one device.",
      "First steps:\n"
      "  cleave init text           # writes run.toml, and something to learn from\n"
      "  cleave train run.toml\n"
      "  cleave generate out --prompt '12 + 30 ='\n");
  cleave::app::add_commands(program.app(), program.answer());
  return program.run(argc, argv);
}
