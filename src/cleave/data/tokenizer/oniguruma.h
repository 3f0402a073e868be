#pragma once

#include <string>
#include <string_view>

namespace cleave::data::tokenizer {

/// A pattern in Oniguruma's syntax (Ruby's), which tokenizer.json has, as PCRE2 must have it to
/// match the same: classes (\s, \w, \d, \h, scripts) are spelled out, classes in classes and
/// intersections become alternatives with lookahead, `{n,m}+` repeats rather than possesses, and
/// `(?m)` lets a dot match a line's end. `is_script` tells names of scripts from other properties.
/// Throws UserError, naming the pattern, if it has something that has no such form.
std::string from_oniguruma(std::string_view pattern, bool (*is_script)(std::string_view));

}  // namespace cleave::data::tokenizer
