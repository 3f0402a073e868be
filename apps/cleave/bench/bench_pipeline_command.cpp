#include <array>
#include <chrono>
#include <memory>
#include <mutex>
#include <vector>

#include "bench/bench_overhead.h"
#include "bench/median.h"
#include "command.h"
#include "files.h"
#include "ranks.h"
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "cleave/base/check.h"
#include "cleave/comm/local/local_world.h"
#include "cleave/engine/measure/link_profile.h"
#include "cleave/engine/run/emulated_device.h"
#include "cleave/plan/time/simulator.h"
#include "cleave/report/text_table.h"
#include "cleave/schedule/generators.h"
#include "cleave/schedule/passes.h"

namespace cleave::app {
namespace {

struct PipelineFlags {
  std::string kind;
  int devices = 8;
  int microbatches = 32;
  int repeats = 5;
  double milliseconds = 5;
  std::int64_t bytes = 64 * 1024;
  bool real = false;
  bool json = false;
};

struct MeasuredPipeline {
  std::string kind;
  double simulated = 0;
  double latency = 0;  ///< of the slowest link
  std::vector<double> steps;
};

schedule::Program program_of(const std::string& kind, const PipelineFlags& flags, int devices) {
  schedule::Program program =
      schedule::generate(kind, {.devices = devices, .microbatches = flags.microbatches});
  for (schedule::Edge& edge : program.edges) {
    edge.forward_bytes = flags.bytes;
    edge.backward_bytes = flags.bytes;
  }
  program = schedule::lower(std::move(program), {});
  engine::plan_messages(program);
  return program;
}

/// One schedule on the devices of `world`; what device 0 measured.
MeasuredPipeline measure(const std::string& kind, const PipelineFlags& flags,
                         comm::Communicator& world) {
  const schedule::Program program = program_of(kind, flags, world.size());
  const double seconds = 1e-3 * flags.milliseconds;
  const engine::EmulatedTimes times{.f = seconds, .i = seconds, .w = seconds, .speed = {}};
  engine::EmulatedDevice device(program, engine::emulated_costs(program, times, world.rank()),
                                world.rank(), world);

  MeasuredPipeline measured{.kind = kind, .steps = {}};
  plan::Costs costs = engine::emulated_costs(program, times);
  costs.edges = engine::profile_links(program, world);
  for (const plan::LinkCosts& link : costs.edges)
    measured.latency = std::max(measured.latency, link.latency);
  measured.simulated = plan::summarise(program, plan::simulate(program, costs)).makespan;
  for (int i = -1; i < flags.repeats; ++i) {  // the first round warms up
    world.barrier().wait();
    const auto start = std::chrono::steady_clock::now();
    (void)device.executor().run({});
    const std::chrono::duration<double> step = std::chrono::steady_clock::now() - start;
    if (i >= 0) measured.steps.push_back(step.count());
  }
  return measured;
}

nlohmann::json json_of(const MeasuredPipeline& measured) {
  const double median = app::median(measured.steps);
  return {{"schedule", measured.kind},
          {"measured_seconds", median},
          {"simulated_seconds", measured.simulated},
          {"ratio", median / measured.simulated},
          {"link_latency_seconds", measured.latency},
          {"steps", measured.steps}};
}

void print(const std::vector<MeasuredPipeline>& all, const PipelineFlags& flags,
           std::string_view transport, int devices) {
  nlohmann::json list = nlohmann::json::array();
  std::vector<std::vector<std::string>> rows = {
      {"schedule", "simulated ms", "measured ms", "ratio", "link us"}};
  double worst = 0;
  for (const MeasuredPipeline& each : all) {
    const double median = app::median(each.steps);
    list.push_back(json_of(each));
    worst = std::max(worst, median / each.simulated);
    rows.push_back({each.kind, fmt::format("{:.2f}", 1e3 * each.simulated),
                    fmt::format("{:.2f}", 1e3 * median),
                    fmt::format("{:.4f}", median / each.simulated),
                    fmt::format("{:.1f}", 1e6 * each.latency)});
  }
  if (flags.json) {
    const nlohmann::json report = {{"devices", devices},
                                   {"microbatches", flags.microbatches},
                                   {"transport", transport},
                                   {"worst_ratio", worst},
                                   {"results", list}};
    return write_file("", report.dump() + '\n');
  }
  write_file("", fmt::format("{} emulated devices over {}, f = i = w = {} ms, {} microbatches, "
                             "median of {}\n{}worst ratio {:.4f}\n",
                             devices, transport, flags.milliseconds, flags.microbatches,
                             flags.repeats, report::text_table(rows), worst));
}

void run(const PipelineFlags& flags) {
  require(flags.devices >= 2 && flags.microbatches >= 1 && flags.repeats >= 1 &&
              flags.milliseconds > 0 && flags.bytes >= 1,
          "--devices must be at least 2, --microbatches, --repeats and --bytes at least 1");
  if (flags.real) {
    OverheadFlags overhead{
        .microbatches = flags.microbatches, .repeats = flags.repeats, .json = flags.json};
    if (!flags.kind.empty()) overhead.schedule = flags.kind;
    return bench_overhead(overhead);
  }
  std::vector<std::string> kinds = {flags.kind};
  if (flags.kind.empty()) {
    kinds.clear();
    for (std::string_view name : schedule::schedule_names()) kinds.emplace_back(name);
  }
  std::vector<MeasuredPipeline> all;
  const auto measure_all = [&](comm::Communicator& world) {
    std::vector<MeasuredPipeline> mine;
    for (const std::string& kind : kinds) mine.push_back(measure(kind, flags, world));
    if (world.rank() == 0) all = std::move(mine);
  };
  on_ranks([&](comm::Launcher& launcher) {
    const int devices = launcher.devices().value_or(flags.devices);
    launcher.run(devices, comm::kNoThreads, measure_all);
    if (launcher.processes().rank() == 0)
      print(all, flags, launcher.devices() ? "mpi" : "local", devices);
  });
}

}  // namespace

void add_bench_pipeline_command(CLI::App& bench) {
  auto flags = std::make_shared<PipelineFlags>();
  CLI::App* command = bench.add_subcommand(
      "pipeline",
      "Schedules on emulated devices over the real transport against their simulation.");
  command->footer(
      "Examples:\n  cleave bench pipeline --kind zbv\n  mpirun -np 4 cleave bench pipeline");
  command->add_option("--kind", flags->kind, "One schedule; default: every one");
  command->add_option("--devices", flags->devices, "How many; under mpirun the ranks")
      ->capture_default_str();
  command->add_option("--microbatches", flags->microbatches, "Per step")->capture_default_str();
  command->add_option("--milliseconds", flags->milliseconds, "Of each F, I and W of a device")
      ->capture_default_str();
  command->add_option("--bytes", flags->bytes, "Of a message")->capture_default_str();
  command->add_option("--repeats", flags->repeats, "Steps to take the median of")
      ->capture_default_str();
  command->add_flag("--real", flags->real,
                    "Two real devices with half of gpt2-124m each, against a half computing alone");
  command->add_flag("--json", flags->json, "One JSON object on stdout");
  command->callback([flags] { run(*flags); });
}

}  // namespace cleave::app
