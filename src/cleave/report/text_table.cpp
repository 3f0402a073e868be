#include "cleave/report/text_table.h"

#include <algorithm>
#include <set>

#include <fmt/format.h>

#include "cleave/base/check.h"
#include "cleave/base/wrap.h"

namespace cleave::report {
namespace {

using TableRows = std::vector<std::vector<std::string>>;

constexpr std::size_t kTableGap = 2;

std::vector<std::size_t> widths_of(const TableRows& rows) {
  std::vector<std::size_t> widths;
  for (const auto& row : rows) {
    CLEAVE_CHECK(widths.empty() || row.size() == widths.size(), "a row of ", row.size(), " cells");
    widths.resize(row.size());
    for (std::size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], row[i].size());
  }
  return widths;
}

std::size_t total_of(const std::vector<std::size_t>& widths) {
  std::size_t total = 0;
  for (const std::size_t width : widths) total += width + kTableGap;
  return total - std::min(total, kTableGap);
}

std::string aligned_rows(const TableRows& rows) {
  const std::vector<std::size_t> widths = widths_of(rows);
  std::string out;
  for (const auto& row : rows) {
    std::string line;
    for (std::size_t i = 0; i < row.size(); ++i) {
      line += i == 0 ? fmt::format("{:<{}}", row[i], widths[i])
                     : fmt::format("  {:>{}}", row[i], widths[i]);
    }
    out += line.substr(0, line.find_last_not_of(' ') + 1) + '\n';
  }
  return out;
}

/// The first column, or numbers of the rows where two of its cells are equal.
std::vector<std::string> names_of(const TableRows& rows) {
  std::vector<std::string> names;
  for (const auto& row : rows) names.push_back(row.front());
  if (std::set(names.begin(), names.end()).size() == names.size()) return names;
  names.front() = "#";
  for (std::size_t r = 1; r < names.size(); ++r) names[r] = std::to_string(r);
  return names;
}

/// The columns from `first` to before `last` beside the names of the rows.
TableRows columns_of_table(const TableRows& rows, const std::vector<std::string>& names,
                           std::size_t first, std::size_t last) {
  TableRows part;
  for (std::size_t r = 0; r < rows.size(); ++r) {
    part.push_back({names[r]});
    const auto begin = rows[r].begin();
    part.back().insert(part.back().end(), begin + static_cast<std::ptrdiff_t>(first),
                       begin + static_cast<std::ptrdiff_t>(last));
  }
  return part;
}

/// A name and one long cell, which goes on in lines of its own.
std::string long_cells(const TableRows& rows, std::size_t columns) {
  const std::size_t indent = widths_of(rows).front() + kTableGap;
  std::string out;
  for (const auto& row : rows)
    out += fmt::format("{:<{}}", row[0], indent) + wrap(row[1], indent, columns);
  return out;
}

}  // namespace

std::string text_table(const std::vector<std::vector<std::string>>& rows, std::size_t columns) {
  const std::vector<std::size_t> widths = widths_of(rows);
  if (total_of(widths) <= columns) return aligned_rows(rows);
  const std::vector<std::string> names = names_of(rows);
  std::size_t name_width = 0;
  for (const std::string& name : names) name_width = std::max(name_width, name.size());
  std::string out;
  // The first column is a column like others where it is not the name.
  std::size_t first = names.front() == rows.front().front() ? 1 : 0;
  while (first < widths.size()) {
    std::size_t used = name_width;
    std::size_t last = first;
    while (last < widths.size() && used + kTableGap + widths[last] <= columns)
      used += kTableGap + widths[last++];
    if (!out.empty()) out += '\n';
    if (last == first) {
      out += long_cells(columns_of_table(rows, names, first, ++last), columns);
    } else {
      out += aligned_rows(columns_of_table(rows, names, first, last));
    }
    first = last;
  }
  return out;
}

}  // namespace cleave::report
