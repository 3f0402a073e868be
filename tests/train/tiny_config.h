#pragma once

#include <string>
#include <utility>
#include <vector>

#include "support/errors.h"

#include "cleave/train/config/config.h"

namespace cleave::testing {

inline const std::string kTinyConfig = "[model]\npreset = \"gpt-tiny\"\n";

/// A config of a tiny model, with these keys changed.
inline train::Config config_with(std::vector<std::string> overrides,
                                 const std::string& text = kTinyConfig) {
  return train::parse_config(text, "run.toml", {.overrides = std::move(overrides)});
}

/// What such a config is refused with.
inline std::string refused_config(std::vector<std::string> overrides,
                                  const std::string& text = kTinyConfig) {
  return user_error([&] { config_with(std::move(overrides), text); });
}

}  // namespace cleave::testing
