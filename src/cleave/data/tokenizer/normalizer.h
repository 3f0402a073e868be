#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "cleave/data/tokenizer/regex.h"

namespace cleave::data::tokenizer {

/// One change of the text before it is cut into words.
class Normalizer {
 public:
  virtual ~Normalizer() = default;
  virtual void apply(std::string& text, RegexScratch& scratch) const = 0;
};

using Normalizers = std::vector<std::unique_ptr<Normalizer>>;

/// Appends what "normalizer" of a tokenizer.json says, in order. Throws UserError for a type that
/// is not known.
void read_normalizer(const nlohmann::json& json, Normalizers& normalizers);

/// Applies all of them. Throws UserError where that makes a text longer by far.
void normalize(const Normalizers& normalizers, std::string& text, RegexScratch& scratch);

/// Replaces every match of `pattern`. Throws as `normalize` does.
void replace_all(std::string& text, const Regex& pattern, std::string_view content,
                 RegexScratch& scratch);

}  // namespace cleave::data::tokenizer
