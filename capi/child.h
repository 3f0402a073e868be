#pragma once

#include <functional>
#include <string>
#include <vector>

#include <sys/types.h>

namespace cleave::capi {

/// How the program ended, and what it said.
struct Ended {
  int status = 0;   ///< its exit code; 128 and more: by a signal
  std::string out;  ///< what of its standard output on_line has not heard
  std::string err;
};

/// Hears of a line of standard output; returns whether the program shall stop.
using OnLine = std::function<bool(const std::string& line)>;

/// Runs the program cleave with these words until it ends. Every line of its standard output but
/// the last goes to `on_line`; the first time that it says so the program is asked to stop, as
/// Control-C asks it. Should this process die, the program is asked to stop, too. Throws Failure if
/// there is no program.
Ended run_program(const std::vector<std::string>& words, const OnLine& on_line = {});

}  // namespace cleave::capi
