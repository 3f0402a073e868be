#pragma once

#include <algorithm>
#include <string>

#include "cleave/schedule/generators.h"

namespace cleave::testing {

/// GPipe, but the microbatches go forward last to first.
inline schedule::Program last_first(const schedule::PipelineShape& shape) {
  schedule::Program program = schedule::generate("gpipe", shape);
  program.schedule = "last-first";
  for (auto& list : program.lists) std::reverse(list.begin(), list.begin() + shape.microbatches);
  return program;
}

/// The name of that schedule, which is added at its first use, since the table is the process's.
inline std::string last_first_schedule() {
  static const bool added = [] {
    schedule::add_schedule({.name = "last-first", .generate = last_first, .keeps_all = true});
    return true;
  }();
  return added ? "last-first" : "";
}

}  // namespace cleave::testing
