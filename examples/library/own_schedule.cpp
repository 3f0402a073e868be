// A schedule of your own: a function from a shape to a program, and a row for it. From then on its
// name works in parallel.schedule, and it is proven like all others before it runs.

#include <algorithm>

#include "train_with.h"

#include "cleave/schedule/generators.h"

namespace {

using cleave::schedule::PipelineShape;
using cleave::schedule::Program;

/// GPipe, but the microbatches go forward last to first.
Program last_first(const PipelineShape& shape) {
  Program program = cleave::schedule::generate("gpipe", shape);
  program.schedule = "last-first";
  for (auto& list : program.lists) std::reverse(list.begin(), list.begin() + shape.microbatches);
  return program;
}

}  // namespace

int main() {
  cleave::schedule::add_schedule({.name = "last-first", .generate = last_first, .keeps_all = true});

  const auto one = example::train_with({});
  const auto two = example::train_with({"parallel.pipeline=2", "parallel.schedule=last-first"});
  return example::check(one, two);
}
