#include "plan/plan_config.h"

#include "cleave/base/check.h"

namespace cleave::app {

void plan_config(const PlanConfigFlags& flags, Exit&) {
  throw UserError(detail::concat(
      "planning ", flags.config,
      " means measuring it, and this program was built without the engine (CLEAVE_ENGINE=OFF); "
      "build it with, or give --model, --cluster and --batch"));
}

}  // namespace cleave::app
