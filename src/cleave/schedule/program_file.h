#pragma once

#include <string>
#include <string_view>

#include "cleave/schedule/generators.h"
#include "cleave/schedule/program.h"

namespace cleave::schedule {

/// A program that somebody wrote, in the text form or as a CSV of torch.distributed.pipelining.
struct ProgramFile {
  Program program;
  bool hash_matches = true;  ///< as in ReadProgram
  bool reordered = false;    ///< a CSV had backwards in another order than that of microbatches
};

/// What a user should hear of a file called `name` that was read; empty: nothing.
std::string changed_order(const std::string& name, bool reordered);

/// Throws UserError: "mine.csv:3:7: …", with the `name` of the file.
ProgramFile parse_program_file(const std::string& name, std::string_view text);

/// True if `schedule` is no name but a file: it has a dot or a slash, and no schedule is called so.
bool names_file(std::string_view schedule);

/// The order of one pipeline: that of the schedule with this name, or the one in this file. Throws
/// UserError if the file cannot be read, was changed after its hash was written, says more than an
/// order, is not for such a shape, or is not sound.
ProgramFile order_of(std::string_view schedule, const PipelineShape& shape);

}  // namespace cleave::schedule
