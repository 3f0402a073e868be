#pragma once

#include <optional>
#include <string>

#include "cleave/plan/hardware/hardware.h"

namespace cleave::app {

/// Hardware of the user's own, from a TOML file.
struct ClusterFile {
  std::string name;
  plan::Hardware hardware;  ///< its name is that of the file's
  std::int64_t devices = 0;
  std::optional<double> price;  ///< of a device and hour

  ClusterFile() = default;
  ClusterFile(const ClusterFile&) = delete;  // the hardware's name lies in `name`
  ClusterFile& operator=(const ClusterFile&) = delete;
};

/// Reads `path` into `file`. Throws UserError, naming key, value and rule.
void read_cluster_file(const std::string& path, ClusterFile& file);

}  // namespace cleave::app
