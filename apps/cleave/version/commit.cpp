#include "version/commit.h"

#include "cleave_commit.h"

namespace cleave::app {

std::string_view commit() {
  return CLEAVE_COMMIT;
}

}  // namespace cleave::app
