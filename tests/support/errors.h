#pragma once

#include <string>

#include "cleave/base/check.h"

namespace cleave::testing {

/// The message of the UserError that `act` throws, or a text that no test expects.
template <class Act>
std::string user_error(Act&& act) {
  try {
    act();
  } catch (const UserError& error) {
    return error.what();
  }
  return "(no UserError was thrown)";
}

}  // namespace cleave::testing
