#pragma once

#include <string>

namespace cleave::testing {

/// A file of the project: `source_path("docs/tour.md")`. Only paths.cpp is compiled with a place on
/// this machine, so that the compiler's cache serves every checkout.
std::string source_path(const std::string& relative);

/// The program, for tests that run it; they make sure it is built.
std::string cleave_binary();

}  // namespace cleave::testing
