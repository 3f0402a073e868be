#pragma once

#include <fstream>
#include <functional>
#include <sstream>
#include <string>
#include <vector>

#include "support/paths.h"
#include <gtest/gtest.h>

#include "cleave/spec/dtype.h"

namespace cleave::testing {

/// The losses of a run that the first words of a line name.
using LossesOf =
    std::function<std::vector<double>(const std::vector<std::string>& words, DType dtype)>;

/// Holds the losses of `ours` against a golden file and returns how many lines it has. A line has
/// `words` words, then "f32" or "bf16", then the loss of each step. They agree to 1e-5 in f32; to
/// 2 % in bf16, where both round at each layer.
inline int expect_golden_losses(const std::string& path, int words, const LossesOf& ours) {
  std::ifstream file(source_path(path));
  int lines = 0;
  for (std::string line; std::getline(file, line);) {
    if (line.starts_with("#")) continue;
    std::istringstream text(line);
    std::vector<std::string> named(static_cast<std::size_t>(words));
    for (std::string& word : named) text >> word;
    std::string dtype;
    text >> dtype;
    for (const double loss : ours(named, dtype == "f32" ? DType::F32 : DType::BF16)) {
      double theirs = 0;
      EXPECT_TRUE(text >> theirs) << line;
      EXPECT_NEAR(loss, theirs, (dtype == "f32" ? 1e-5 : 2e-2) * theirs) << line;
    }
    ++lines;
  }
  return lines;
}

}  // namespace cleave::testing
