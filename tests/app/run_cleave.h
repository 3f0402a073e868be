#pragma once

#include <string>

namespace cleave::testing {

struct Answer {
  int exit = -1;
  std::string out;
  std::string err;
};

/// Runs the program as a user does, through the shell: `run_cleave("schedule 1f1b --stages 4")`.
/// What `arguments` redirect is not in the answer.
Answer run_cleave(const std::string& arguments);

std::string read_text(const std::string& path);

}  // namespace cleave::testing
