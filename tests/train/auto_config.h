#pragma once

#include <string>
#include <vector>

#include "cleave/train/tune/auto_space.h"

namespace cleave::testing {

/// Eight small layers and a batch of eight; `rest` goes on with [train] and may begin tables.
inline train::Config config_of(const std::string& rest) {
  constexpr const char* kModel = R"(
[model]
kind = "gpt"
layers = 8
hidden = 32
heads = 2
vocab = 64
context = 16
[train]
batch = 8
sequence = 16
)";
  return train::parse_config(kModel + rest, "test.toml");
}

/// The first layout of `config`, with all that it can do about memory.
inline std::vector<plan::Layout> savings_of(const train::Config& config) {
  const plan::LayoutSpace space = train::space_of(config);
  return savings(space, layouts(space).front());
}

}  // namespace cleave::testing
