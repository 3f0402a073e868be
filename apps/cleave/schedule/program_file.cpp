#include "schedule/program_file.h"

#include "files.h"
#include "streams.h"

#include "cleave/schedule/program_file.h"

namespace cleave::app {

schedule::Program read_program(const std::string& path) {
  const std::string name = path == "-" ? "standard input" : path;
  schedule::ProgramFile file = schedule::parse_program_file(name, read_file(path));
  if (!file.hash_matches)
    complain("cleave: {} was changed after its hash was written; reading it as it is\n", path);
  const std::string changed = schedule::changed_order(path, file.reordered);
  if (!changed.empty()) complain("cleave: {}\n", changed);
  return std::move(file.program);
}

}  // namespace cleave::app
