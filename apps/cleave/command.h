#pragma once

#include <CLI/CLI.hpp>

namespace cleave::app {

/// Exit codes: part of the interface, see `cleave --help`.
enum class Exit : int { Done = 0, Failed = 1, Usage = 2, DoesNotFit = 3, DeviceLost = 4 };

/// What the program answers when `error` reaches main.
Exit exit_code_of(const std::exception& error);

/// What it says about it.
std::string sentence_of(const std::exception& error);

// Each adds one verb, whose callback does the work. It throws on errors; when the answer is "no"
// without being an error (not verified, does not fit) it sets `answer`.
void add_bench_command(CLI::App& app);
void add_bench_schedule_command(CLI::App& bench);
void add_bench_parallel_command(CLI::App& bench);
void add_bench_pipeline_command(CLI::App& bench);
void add_bench_step_command(CLI::App& bench);
void add_data_command(CLI::App& app);
void add_checkpoint_command(CLI::App& app, Exit& answer);
void add_train_command(CLI::App& app);
void add_doctor_command(CLI::App& app);
void add_edge_command(CLI::App& app);
void add_export_command(CLI::App& app);
void add_evaluate_command(CLI::App& app);
void add_generate_command(CLI::App& app);
void add_init_command(CLI::App& app);
void add_join_command(CLI::App& app);
void add_plan_command(CLI::App& app, Exit& answer);
void add_presets_command(CLI::App& app);
void add_reference_command(CLI::App& app);
void add_report_command(CLI::App& app);
void add_schedule_command(CLI::App& app, Exit& answer);
void add_serve_command(CLI::App& app);
void add_status_command(CLI::App& app);
void add_supervise_command(CLI::App& app, Exit& answer);
void add_verify_command(CLI::App& app, Exit& answer);
void add_version_command(CLI::App& app);

/// All verbs that this build has.
void add_commands(CLI::App& app, Exit& answer);

}  // namespace cleave::app
