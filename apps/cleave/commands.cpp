#include "command.h"
#include "reference/help_format.h"

namespace cleave::app {

void add_commands(CLI::App& app, Exit& answer) {
  add_init_command(app);
#ifdef CLEAVE_ENGINE
  add_train_command(app);
  add_evaluate_command(app);
  add_generate_command(app);
  add_export_command(app);
  add_doctor_command(app);
  add_serve_command(app);
  add_join_command(app);
  add_status_command(app);
  add_supervise_command(app, answer);
  add_edge_command(app);
#endif
  add_plan_command(app, answer);
  add_schedule_command(app, answer);
  add_verify_command(app, answer);
  add_data_command(app);
  add_bench_command(app);
  add_checkpoint_command(app, answer);
  add_report_command(app);
  add_presets_command(app);
  add_reference_command(app);
  add_help_command(app);
  add_version_command(app);
}

}  // namespace cleave::app
