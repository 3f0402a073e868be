#pragma once

#include <stdexcept>
#include <string>

#include <nlohmann/json.hpp>

namespace cleave::checkpoint {

/// Nothing in a checkpoint lies deeper. What is deeper by far would take the stack with it wherever
/// a value is copied, printed or removed.
inline constexpr int kDeepestJson = 64;

/// Throws json::exception where `text` is not JSON, std::invalid_argument where it is too deep.
inline nlohmann::json parse_shallow(const std::string& text,
                                    const nlohmann::json::parser_callback_t& watch = {}) {
  return nlohmann::json::parse(
      text, [&](int depth, nlohmann::json::parse_event_t event, nlohmann::json& parsed) {
        if (depth > kDeepestJson) throw std::invalid_argument("nested too deep");
        return !watch || watch(depth, event, parsed);
      });
}

}  // namespace cleave::checkpoint
