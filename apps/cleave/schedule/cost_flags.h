#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "cleave/plan/time/costs.h"

namespace cleave::app {

/// What `--cost` and `--costs` said.
struct CostFlags {
  std::string uniform = "f=1,i=1,w=1,comm=0";  ///< any part of it
  std::string file;
};

/// What they mean: per stage, or the same for all devices if `stages` is empty.
struct CostTable {
  plan::UniformCosts uniform;
  std::vector<plan::UniformCosts> stages;  ///< [stage]; comm: between it and the next
  std::string source;                      ///< for errors: the file
};

/// "f=2,comm=0.5": what is left out keeps its default. Throws UserError on anything else.
plan::UniformCosts parse_uniform_costs(std::string_view text);

/// From CSV text: a heading with f, i, w and, if wanted, comm in any order; then one row per stage,
/// first to last; the last may leave comm empty. Lines that begin with # and empty lines are
/// skipped. Throws UserError that begins with `name`, the file's, and the line.
std::vector<plan::UniformCosts> parse_stage_costs(std::string_view text, const std::string& name);

CostTable read_costs(const CostFlags& flags);

/// In plain numbers. Throws UserError unless the table has a row for each stage.
plan::Costs costs_for(const schedule::Program& program, const CostTable& table);

}  // namespace cleave::app
