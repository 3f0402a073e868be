#pragma once

#include <string>
#include <string_view>

#include "cleave/plan/costs.h"

namespace cleave::app {

/// What `--cost` and `--costs` said.
struct CostFlags {
  std::string uniform = "f=1,i=1,w=1,comm=0";  ///< any part of it
  std::string file;
};

/// "f=2,comm=0.5": what is left out keeps its default. Throws UserError on anything else.
plan::UniformCosts parse_uniform_costs(std::string_view text);

/// From CSV text: a heading with f, i, w and, if wanted, comm in any order; then one row per stage,
/// first to last. comm is the latency between a stage and the next; the last row may leave it
/// empty. Lines that begin with # and empty lines are skipped. `name` is the file's, for errors.
plan::Costs parse_stage_costs(std::string_view text, const std::string& name,
                              const schedule::Program& program);

/// The costs of `program` in plain numbers. Throws UserError.
plan::Costs costs_for(const schedule::Program& program, const CostFlags& flags);

}  // namespace cleave::app
