#include "schedule/cost_flags.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <optional>

#include "files.h"
#include "words.h"

#include "cleave/base/check.h"
#include "cleave/base/nearest.h"

namespace cleave::app {

namespace {

using plan::UniformCosts;

constexpr std::array<std::string_view, 4> kCostNames = {"f", "i", "w", "comm"};

// So that no sum of costs is infinite.
constexpr double kMostCost = 1e100;

std::optional<double> number(std::string_view text) {
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  const bool whole = error == std::errc() && end == text.data() + text.size();
  return whole && value >= 0 && value <= kMostCost ? std::optional(value) : std::nullopt;
}

double* field_of(UniformCosts& costs, std::string_view name) {
  if (name == "f") return &costs.f;
  if (name == "i") return &costs.i;
  if (name == "w") return &costs.w;
  return name == "comm" ? &costs.comm : nullptr;
}

/// The fields that the columns of a costs file are for, in their order.
std::vector<std::string_view> parse_heading(std::string_view line, const std::string& where) {
  std::vector<std::string_view> columns = split(line, ',');
  for (std::string_view column : columns) {
    require(std::ranges::count(kCostNames, column) == 1, where, ": unknown column '", column,
            "'; known are f, i, w and comm");
    require(std::ranges::count(columns, column) == 1, where, ": column '", column,
            "' is there twice");
  }
  for (std::string_view name : {"f", "i", "w"}) {
    require(std::ranges::count(columns, name) == 1, where, ": column '", name,
            "' is missing; the heading must have f, i and w, as in f,i,w,comm");
  }
  return columns;
}

UniformCosts parse_row(std::string_view line, const std::vector<std::string_view>& columns,
                       const std::string& where) {
  const std::vector<std::string_view> values = split(line, ',');
  require(values.size() == columns.size(), where, ": ", values.size(), " values under ",
          columns.size(), " columns");
  UniformCosts row;
  for (std::size_t i = 0; i < columns.size(); ++i) {
    if (columns[i] == "comm" && values[i].empty()) continue;
    const auto value = number(values[i]);
    require(value.has_value(), where, ": '", values[i],
            "' is not a cost; costs are numbers from 0 to 1e100, as in 1.5");
    *field_of(row, columns[i]) = *value;
  }
  return row;
}

}  // namespace

plan::UniformCosts parse_uniform_costs(std::string_view text) {
  UniformCosts costs;
  std::vector<double*> given;
  for (std::string_view part : split(text, ',')) {
    const auto equals = part.find('=');
    const std::string_view name = part.substr(0, equals);
    double* field = field_of(costs, name);
    require(field != nullptr && equals != part.npos, "--cost does not know '", part,
            "'; write it as f=1,i=1,w=1,comm=0");
    const auto value = number(part.substr(equals + 1));
    require(value.has_value(), "--cost ", part, " is not a number from 0 to 1e100");
    require(std::ranges::count(given, field) == 0, "--cost gives ", name, " twice; give it once");
    given.push_back(field);
    *field = *value;
  }
  require(costs.f + costs.i + costs.w > 0, "--cost ", text,
          " leaves nothing to do; give f, i or w more than 0");
  return costs;
}

std::vector<UniformCosts> parse_stage_costs(std::string_view text, const std::string& name) {
  std::vector<std::string_view> columns;
  std::vector<UniformCosts> rows;
  int line_number = 0;
  for (std::string_view line : split(text, '\n')) {
    const std::string where = detail::concat(name, ":", ++line_number);
    if (line.empty() || line.starts_with('#')) continue;
    if (columns.empty()) {
      columns = parse_heading(line, where);
    } else {
      rows.push_back(parse_row(line, columns, where));
    }
  }
  require(!rows.empty(), name, " has no costs; write the heading f,i,w,comm and a row per stage");
  return rows;
}

CostTable read_costs(const CostFlags& flags) {
  CostTable table{
      .uniform = parse_uniform_costs(flags.uniform), .stages = {}, .source = flags.file};
  if (!flags.file.empty()) table.stages = parse_stage_costs(read_file(flags.file), flags.file);
  return table;
}

plan::Costs costs_for(const schedule::Program& program, const CostTable& table) {
  plan::Costs costs = plan::uniform_costs(program, table.uniform);
  costs.unit = "";
  if (table.stages.empty()) return costs;
  require(std::ssize(table.stages) == program.stages, table.source, " has costs for ",
          table.stages.size(), " stages, but the schedule has ", program.stages,
          "; write one row per stage");
  costs.stages.clear();
  for (const UniformCosts& row : table.stages) {
    costs.stages.push_back({.forward = row.f, .input = row.i, .weight = row.w, .recompute = row.f});
  }
  costs.edges.clear();
  for (const schedule::Edge& edge : program.edges) {
    costs.edges.push_back({.latency = table.stages[std::min(edge.from, edge.to)].comm});
  }
  return costs;
}

}  // namespace cleave::app
