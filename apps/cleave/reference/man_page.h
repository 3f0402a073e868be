#pragma once

#include <string>

#include "reference/verbs.h"

namespace cleave::app {

/// "cleave-bench-step": the name of a verb's page.
std::string man_name(const Verb& verb);

/// The page of one verb for man(1).
std::string man_page(const Verb& verb, const Verb& root);

}  // namespace cleave::app
