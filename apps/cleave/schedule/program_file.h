#pragma once

#include <string>

#include "cleave/schedule/program.h"

namespace cleave::app {

/// A program in text form or as the CSV of torch.distributed.pipelining, told apart by how the file
/// begins. "-" is standard input. Throws UserError with file, line and column.
schedule::Program read_program(const std::string& path);

}  // namespace cleave::app
