#pragma once

#include <cstdint>
#include <vector>

#include <nlohmann/json_fwd.hpp>

namespace cleave::data::tokenizer {

/// The special tokens around a document.
struct Frame {
  std::vector<std::int32_t> before;
  std::vector<std::int32_t> after;
};

/// What "post_processor" of a tokenizer.json puts around a single text. Throws UserError for a type
/// that is not known.
Frame read_frame(const nlohmann::json& json);

}  // namespace cleave::data::tokenizer
