#pragma once

#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace cleave::app {

/// What the user has: empty where nothing was said.
struct Belongings {
  std::string data;   ///< what to learn from
  std::string model;  ///< what to begin with
};

/// Texts for places of a config: ("{data}", "\"clients\"") puts that path where it has {data}.
using Filling = std::vector<std::pair<std::string, std::string>>;

/// What somebody may want of a first config.
struct Purpose {
  std::string_view name;  ///< as `cleave init` takes it
  std::string_view about;
  std::string_view run;     ///< how such a run is started; "{config}" stands for the file
  std::string_view sample;  ///< the name of what is written where no data are given
  std::string_view config;  ///< TOML with comments; "{data}" and "{out}" stand for paths
  void (*write_sample)(const std::filesystem::path& path);
  /// What else the config says of the data and the model; null: nothing. Throws UserError if they
  /// are not what the purpose takes.
  Filling (*fill)(const Belongings& given) = nullptr;
};

std::span<const Purpose> purposes();

/// Throws UserError that lists the known ones.
const Purpose& find_purpose(std::string_view name);

// One file for each.
Purpose text_purpose();
Purpose fine_tune_purpose();
Purpose vision_purpose();
Purpose cluster_purpose();
Purpose edge_purpose();

/// Additions, one to a line, the same on every machine; other numbers for another `seed`.
std::string sums(int lines, std::uint32_t seed);

/// A path as TOML has it, absolute, so that a config works wherever it is copied to.
std::string path_value(const std::filesystem::path& path);

}  // namespace cleave::app
