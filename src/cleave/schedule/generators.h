#pragma once

#include <string_view>
#include <vector>

#include "cleave/schedule/program.h"

namespace cleave::schedule {

/// What a schedule is made for.
struct PipelineShape {
  int devices = 1;
  int microbatches = 1;
  int chunks = 0;  ///< stages per device; 0: what the schedule wants
};

/// The compute-only program of one replica: F, I, W, B of whole stages, their placement, and an
/// edge from each stage to the next, without bytes until a model gives it its size. Throws
/// UserError on an unknown name and on a shape that the schedule cannot have.
Program generate(std::string_view schedule, const PipelineShape& shape);

/// The names that `generate` knows.
std::vector<std::string_view> schedule_names();

}  // namespace cleave::schedule
