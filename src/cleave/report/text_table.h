#pragma once

#include <string>
#include <vector>

namespace cleave::report {

/// Rows of equal length as aligned columns, two spaces apart: the first to the left, numbers to the
/// right. The first row is the heading. ASCII only.
std::string text_table(const std::vector<std::vector<std::string>>& rows);

}  // namespace cleave::report
