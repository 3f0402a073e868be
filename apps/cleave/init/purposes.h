#pragma once

#include <span>
#include <string>
#include <string_view>

namespace cleave::app {

/// What somebody may want of a first config.
struct Purpose {
  std::string_view name;  ///< as `cleave init` takes it
  std::string_view about;
  std::string_view run;     ///< how such a run is started; "{config}" stands for the file
  std::string_view config;  ///< TOML with comments; "{data}" and "{out}" stand for paths
};

std::span<const Purpose> purposes();

/// Throws UserError that lists the known ones.
const Purpose& find_purpose(std::string_view name);

/// Text to learn from where none is given: additions, one to a line, the same on every machine.
std::string sample_text();

}  // namespace cleave::app
