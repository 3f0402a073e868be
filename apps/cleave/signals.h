#pragma once

namespace cleave::app {

/// SIGUSR1 ends the run after the step in hand, even if it comes twice. SIGINT and SIGTERM end the
/// process at once as long as planning and compiling take: there is nothing to finish.
void stop_on_usr1();

/// SIGINT and SIGTERM end the run after the step in hand, too.
void stop_on_signals();

}  // namespace cleave::app
