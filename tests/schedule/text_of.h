#pragma once

#include <string>
#include <vector>

#include "cleave/schedule/text.h"

namespace cleave::testing {

/// A device's list on one line: "0F0 0B0 STEP".
inline std::string text_of(const std::vector<schedule::Instruction>& list) {
  std::string text;
  for (const schedule::Instruction& i : list)
    text += (text.empty() ? "" : " ") + schedule::to_string(i);
  return text;
}

}  // namespace cleave::testing
