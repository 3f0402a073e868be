#pragma once

#include <string>

namespace cleave::app {

/// What is printed of a value (nlohmann's), with a newline. Paths, and names that others gave, may
/// be no UTF-8, at which the library throws; here what is broken comes out as U+FFFD.
template <class Json>
std::string json_text(const Json& value, int indent = -1) {
  return value.dump(indent, ' ', /*ensure_ascii=*/false, Json::error_handler_t::replace) + '\n';
}

}  // namespace cleave::app
