#pragma once

#include <cstdlib>
#include <filesystem>

#include "support/paths.h"

#include "cleave/train/save/saving.h"

namespace cleave::testing {

/// tests/golden/hugging_face, or the place where scripts/hugging_face_random has put models of its
/// own.
inline std::filesystem::path golden_directory() {
  const char* given = std::getenv("CLEAVE_HUGGING_FACE_GOLDEN");
  return given != nullptr ? given : source_path("tests/golden/hugging_face");
}

inline checkpoint::CheckpointReader reader_of(const std::filesystem::path& directory) {
  return checkpoint::CheckpointReader(directory, checkpoint::Load::WeightsOnly);
}

}  // namespace cleave::testing
