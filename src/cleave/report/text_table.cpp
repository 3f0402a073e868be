#include "cleave/report/text_table.h"

#include <algorithm>

#include <fmt/format.h>

#include "cleave/base/check.h"

namespace cleave::report {

std::string text_table(const std::vector<std::vector<std::string>>& rows) {
  std::vector<std::size_t> widths;
  for (const auto& row : rows) {
    CLEAVE_CHECK(widths.empty() || row.size() == widths.size(), "a row of ", row.size(), " cells");
    widths.resize(row.size());
    for (std::size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], row[i].size());
  }

  std::string out;
  for (const auto& row : rows) {
    for (std::size_t i = 0; i < row.size(); ++i) {
      out += i == 0 ? fmt::format("{:<{}}", row[i], widths[i])
                    : fmt::format("  {:>{}}", row[i], widths[i]);
    }
    out += '\n';
  }
  return out;
}

}  // namespace cleave::report
