#include "app/run_cleave.h"

#include <cstdlib>
#include <fstream>
#include <iterator>

#include "support/paths.h"
#include "support/temporary_directory.h"
#include <sys/wait.h>

namespace cleave::testing {

Answer run_cleave(const std::string& arguments) {
  const TemporaryDirectory directory;
  const std::string out = directory.path("out");
  const std::string err = directory.path("err");
  const std::string command =
      "{ " + cleave_binary() + " " + arguments + "; } >'" + out + "' 2>'" + err + "'";
  const int status = std::system(command.c_str());
  return {.exit = WIFEXITED(status) ? WEXITSTATUS(status) : -1,
          .out = read_text(out),
          .err = read_text(err)};
}

std::string read_text(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

}  // namespace cleave::testing
