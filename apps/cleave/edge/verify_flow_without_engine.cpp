#include "edge/verify_flow.h"

#include "cleave/base/check.h"

namespace cleave::app {

void verify_flow(const FlowFlags& flags, Exit&) {
  throw UserError(detail::concat("--flow compiles the step of ", flags.config,
                                 ", and this program was built without the engine "
                                 "(CLEAVE_ENGINE=OFF); build it with"));
}

}  // namespace cleave::app
