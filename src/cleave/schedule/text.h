#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "cleave/schedule/program.h"

namespace cleave::schedule {

/// The text form of a program: a header, one list of instructions per device, the buffers if they
/// are planned, and a hash of all that. docs/schedules.md describes it. Throws UserError if the
/// name of the schedule cannot stand on a line.
std::string to_text(const Program& program);

struct ReadProgram {
  Program program;
  bool hash_matches = true;  ///< false: the file states a hash, and its content has another
};

/// Reads the text form; what a person leaves out gets its default. Checks the header, but leaves it
/// to the verifier whether the instructions make sense. Throws UserError with line and column.
/// Memory is bounded by the size of `text`, whatever it says.
ReadProgram read_text(std::string_view text);

/// The program that `read_text` gives; throws UserError also if the hash does not match.
Program parse_program(std::string_view text);

/// XXH3 of the text form without its last line: equal programs have equal hashes on every machine.
std::uint64_t content_hash(const Program& program);

}  // namespace cleave::schedule
