#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <memory>
#include <mutex>
#include <vector>

#include "bench/bench_overhead.h"
#include "command.h"
#include "files.h"
#include "json_text.h"
#include "ranks.h"
#include "schedule/graph_flags.h"
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "cleave/base/check.h"
#include "cleave/base/median.h"
#include "cleave/base/philox.h"
#include "cleave/base/units.h"
#include "cleave/comm/local/local_world.h"
#include "cleave/engine/measure/link_profile.h"
#include "cleave/engine/run/emulated_device.h"
#include "cleave/plan/order/auto_schedule.h"
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
  std::string graph;   ///< who feeds whom; empty: a chain
  std::string frozen;  ///< stages
  std::string absent;  ///< stage:microbatch
  std::string jitter;  ///< the most that a pass takes longer; empty: none
  bool real = false;
  bool json = false;
};

struct MeasuredPipeline {
  std::string kind;
  double simulated = 0;
  double latency = 0;  ///< of the slowest link
  std::vector<double> steps;
};

double seconds_of(const std::string& text) {
  return text.empty() ? 0 : parse_seconds(text);
}

schedule::Program program_of(const std::string& kind, const PipelineFlags& flags, int devices) {
  schedule::Program program = plan::generate(kind, {.devices = devices,
                                                    .microbatches = flags.microbatches,
                                                    .graph = parse_graph(flags.graph),
                                                    .frozen = parse_frozen(flags.frozen),
                                                    .absent = parse_absent(flags.absent)});
  for (schedule::Edge& edge : program.edges) {
    edge.forward_bytes = flags.bytes;
    edge.backward_bytes = flags.bytes;
  }
  program = schedule::lower(std::move(program), {});
  engine::plan_messages(program);
  return program;
}

/// Passes take from 1 us to `most` longer, by chance as many tenfold as tenth; each device has a
/// chance of its own, and the same one in every run.
engine::Emulator::Jitter jitter_of(double most, int device) {
  if (most <= 0) return {};
  constexpr double kLeast = 1e-6;
  return [most, random = Philox(static_cast<std::uint64_t>(device), "jitter"),
          next = std::uint64_t{0}](const schedule::Instruction&) mutable {
    return kLeast * std::pow(std::max(1.0, most / kLeast), random.uniform(next++));
  };
}

/// One schedule on the devices of `world`; what device 0 measured.
MeasuredPipeline measure(const schedule::Program& program, const PipelineFlags& flags,
                         comm::Communicator& world) {
  const double seconds = 1e-3 * flags.milliseconds;
  const engine::EmulatedTimes times{.f = seconds, .i = seconds, .w = seconds, .speed = {}};
  engine::EmulatedDevice device(program, engine::emulated_costs(program, times, world.rank()),
                                world.rank(), world,
                                jitter_of(seconds_of(flags.jitter), world.rank()));

  MeasuredPipeline measured{.kind = program.schedule, .steps = {}};
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
  const double median = cleave::median(measured.steps);
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
    const double median = cleave::median(each.steps);
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
                                   {"graph", flags.graph},
                                   {"jitter_seconds", seconds_of(flags.jitter)},
                                   {"worst_ratio", worst},
                                   {"results", list}};
    return write_file("", json_text(report));
  }
  write_file("", fmt::format("{} emulated devices over {}, f = i = w = {} ms, {} microbatches, "
                             "median of {}\n{}worst ratio {:.4f}\n",
                             devices, transport, flags.milliseconds, flags.microbatches,
                             flags.repeats, report::text_table(rows), worst));
}

/// The schedule that is named, or all that the graph leaves.
std::vector<std::string> kinds_of(const PipelineFlags& flags) {
  if (!flags.kind.empty()) return {flags.kind};
  std::vector<std::string> kinds;
  for (const schedule::Schedule& each : schedule::schedules())
    if (flags.graph.empty() || each.any_graph) kinds.emplace_back(each.name);
  if (!flags.graph.empty()) kinds.emplace_back("auto");
  return kinds;
}

void run(const PipelineFlags& flags) {
  require(flags.devices >= 2 && flags.microbatches >= 1 && flags.repeats >= 1 &&
              flags.milliseconds > 0 && flags.bytes >= 1,
          "--devices must be at least 2, --microbatches, --repeats and --bytes at least 1");
  if (flags.real) {
    require(
        flags.graph.empty() && flags.frozen.empty() && flags.absent.empty() && flags.jitter.empty(),
        "--real runs a chain of two devices that compute; leave out --graph, --frozen, --absent "
        "and --jitter");
    OverheadFlags overhead{
        .microbatches = flags.microbatches, .repeats = flags.repeats, .json = flags.json};
    if (!flags.kind.empty()) overhead.schedule = flags.kind;
    return bench_overhead(overhead);
  }
  on_ranks([&](comm::Launcher& launcher) {
    const int given = launcher.devices().value_or(flags.devices);
    const int devices =
        flags.graph.empty() ? given : stages_of(parse_graph(flags.graph), launcher.devices());
    std::vector<schedule::Program> programs;
    for (const std::string& kind : kinds_of(flags))
      programs.push_back(program_of(kind, flags, devices));
    std::vector<MeasuredPipeline> all;
    launcher.run(devices, comm::kNoThreads, [&](comm::Communicator& world) {
      std::vector<MeasuredPipeline> mine;
      for (const schedule::Program& program : programs)
        mine.push_back(measure(program, flags, world));
      if (world.rank() == 0) all = std::move(mine);
    });
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
      "Examples:\n  cleave bench pipeline --kind zbv\n  mpirun -np 4 cleave bench pipeline\n"
      "  cleave bench pipeline --graph \"0>1,1>3,2>3,3>4,4>5\" --absent 0:1,1:1 --jitter 1s");
  command->add_option("--kind", flags->kind, "One schedule; default: every one");
  command->add_option("--devices", flags->devices, "How many; under mpirun the ranks")
      ->capture_default_str();
  command->add_option("--microbatches", flags->microbatches, "Per step")->capture_default_str();
  command->add_option("--milliseconds", flags->milliseconds, "Of each F, I and W of a device")
      ->capture_default_str();
  command->add_option("--bytes", flags->bytes, "Of a message")->capture_default_str();
  command->add_option("--repeats", flags->repeats, "Steps to take the median of")
      ->capture_default_str();
  command->add_option("--graph", flags->graph,
                      "Who feeds whom, as in 0>1,1>3,2>3, or a file with that; a stage a device");
  command->add_option("--frozen", flags->frozen, "Stages whose weights do not learn, as in 0,1");
  command->add_option("--absent", flags->absent,
                      "stage:microbatch that the stage has no part in, as in 0:1,0:3");
  command->add_option(
      "--jitter", flags->jitter,
      "Passes take from 1 us to this longer, such as 1s; what is simulated does not");
  command->add_flag("--real", flags->real,
                    "Two real devices with half of gpt2-124m each, against a half computing alone");
  command->add_flag("--json", flags->json, "One JSON object on stdout");
  command->callback([flags] { run(*flags); });
}

}  // namespace cleave::app
