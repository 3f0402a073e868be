#pragma once

#include <cstdlib>
#include <optional>
#include <string>
#include <utility>

#include "checked.h"

#include "cleave/base/check.h"
#include "cleave/schedule/text.h"
#include "cleave/schedule/verifier.h"

namespace cleave::fuzz {

/// The verifier answers on every program that `read` gives, unless it throws UserError, and the
/// program is written and read back unchanged.
template <class Read>
void answer_on(Read read) {
  static Checked<schedule::Program> programs;
  std::optional<schedule::Program> program;
  try {
    program = read();
  } catch (const UserError&) {
    return;
  }
  programs.check_once(std::move(*program), [](const schedule::Program& read) {
    using schedule::Level;
    for (const Level level : {Level::Compute, Level::Messages, Level::Final, Level::Forward})
      for (const auto& violation : verify(read, level))
        if (to_string(read, violation).empty()) std::abort();
    if (schedule::parse_program(to_text(read)) != read) std::abort();
  });
}

}  // namespace cleave::fuzz
