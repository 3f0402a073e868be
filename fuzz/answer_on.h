#pragma once

#include <cstdlib>
#include <string>

#include "cleave/schedule/text.h"
#include "cleave/schedule/verifier.h"

namespace cleave::fuzz {

/// The verifier answers on every program that can be read, and the program is written and read back
/// unchanged.
inline void answer_on(const schedule::Program& program) {
  using schedule::Level;
  for (const Level level : {Level::Compute, Level::Messages, Level::Final, Level::Forward})
    for (const auto& violation : verify(program, level))
      if (to_string(program, violation).empty()) std::abort();
  if (schedule::parse_program(to_text(program)) != program) std::abort();
}

}  // namespace cleave::fuzz
