#include "support/paths.h"

namespace cleave::testing {

std::string source_path(const std::string& relative) {
  return CLEAVE_SOURCE_DIR "/" + relative;
}

std::string cleave_binary() {
  return CLEAVE_BINARY;
}

}  // namespace cleave::testing
