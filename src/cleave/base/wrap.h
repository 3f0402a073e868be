#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace cleave {

/// `text` in lines of at most `columns` columns, broken at blanks. All but the first begin with
/// `indent` blanks: the first goes on where that many columns are taken already. Ends with a
/// newline.
std::string wrap(std::string_view text, std::size_t indent, std::size_t columns = 80);

}  // namespace cleave
