#pragma once

#include <stdexcept>
#include <string_view>

namespace cleave {

/// Nothing that we read lies deeper. What is deeper by far would take the stack with it wherever a
/// value is copied, printed or removed.
inline constexpr int kDeepestJson = 64;

/// Whether brackets nest no deeper in what may be JSON.
bool is_shallow(std::string_view text);

/// What the library (nlohmann's) makes of JSON that somebody else has written. Throws what the
/// library throws where `text` is none, std::invalid_argument where it is too deep.
template <class Json>
Json parse_shallow(std::string_view text, const typename Json::parser_callback_t& watch = {}) {
  if (!is_shallow(text)) throw std::invalid_argument("nested too deep");
  return Json::parse(text, watch);
}

/// The same, and a discarded value instead of an exception.
template <class Json>
Json parse_shallow_or_discard(std::string_view text) {
  if (!is_shallow(text)) return Json(Json::value_t::discarded);
  return Json::parse(text, nullptr, /*allow_exceptions=*/false);
}

}  // namespace cleave
