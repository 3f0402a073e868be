#pragma once

#include <string>
#include <vector>

#include "cleave/schedule/program.h"

namespace cleave::schedule::testing {

/// Instructions from their text form, for programs written by hand in tests: "0F0 SEND:0>0 STEP".
/// Trusts its text.
std::vector<Instruction> written(const std::string& text);

/// One stage per list, on the device of that list, an edge from each stage to the next.
Program chain(int microbatches, const std::vector<std::string>& lists);

/// The whole program for a failure message: lists, edges, ties, buffers, budgets.
std::string dump(const Program& program);

}  // namespace cleave::schedule::testing
