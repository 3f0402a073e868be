#pragma once

#include <string>
#include <string_view>

#include "reference/verbs.h"

namespace cleave::app {

/// A script that teaches a shell ("bash", "zsh" or "fish") verbs, options and the keys of --set.
std::string completion(std::string_view shell, const Verb& root);

}  // namespace cleave::app
