#include "command.h"

namespace cleave::app {

void add_bench_command(CLI::App& app) {
  CLI::App* bench =
      app.add_subcommand("bench", "Measure how fast cleave itself is, on this machine.");
  bench->footer("Example: cleave bench schedule");
  bench->require_subcommand(1);
  add_bench_schedule_command(*bench);
#ifdef CLEAVE_ENGINE
  add_bench_parallel_command(*bench);
  add_bench_pipeline_command(*bench);
  add_bench_step_command(*bench);
#endif
}

}  // namespace cleave::app
