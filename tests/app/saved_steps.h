#pragma once

#include <cstdint>
#include <cstdio>
#include <fstream>
#include <string>

#include "app/tiny_run.h"

namespace cleave::testing {

/// The directory of a checkpoint of `run`.
inline std::string checkpoint_of(const TinyRun& run, int step) {
  char name[32];
  std::snprintf(name, sizeof name, "step-%08d", step);
  return run.out() + "/checkpoints/" + name;
}

/// Changes one bit of a file.
inline void flip_bit(const std::string& path, std::int64_t offset) {
  std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
  file.seekg(offset);
  const int byte = file.get();
  file.seekp(offset);
  file.put(static_cast<char>(byte ^ 4));
}

}  // namespace cleave::testing
