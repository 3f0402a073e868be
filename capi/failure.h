#pragma once

#include <stdexcept>
#include <string>

#include "cleave.h"

namespace cleave::capi {

/// What ends a call: a code and a sentence.
struct Failure : std::runtime_error {
  Failure(cleave_status why, const std::string& sentence)
      : std::runtime_error(sentence), status(why) {}

  cleave_status status;
};

}  // namespace cleave::capi
