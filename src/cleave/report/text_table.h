#pragma once

#include <cstddef>
#include <string>
#include <vector>

namespace cleave::report {

inline constexpr std::size_t kTableColumns = 80;

/// Rows of equal length as aligned columns, two spaces apart: the first to the left, numbers to the
/// right. The first row is the heading. ASCII only.
///
/// What does not fit into `columns` goes on below, after a blank line and beside the first column
/// again, or beside numbers of the rows where that one tells them not apart:
///
///     device   weights  gradients
///     0       3.68 MiB   4.91 MiB
///
///     device  optimizer
///     0        4.91 MiB
///
/// A cell that no line has room for is broken at its blanks.
std::string text_table(const std::vector<std::vector<std::string>>& rows,
                       std::size_t columns = kTableColumns);

}  // namespace cleave::report
