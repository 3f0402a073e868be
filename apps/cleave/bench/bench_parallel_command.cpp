#include <memory>
#include <vector>

#include "bench/step_flags.h"
#include "bench/trial_device.h"
#include "command.h"
#include "json_text.h"
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "cleave/base/median.h"
#include "cleave/base/units.h"
#include "cleave/comm/local/local_world.h"

namespace cleave::app {
namespace {

struct ParallelFlags : StepFlags {
  ParallelFlags() {
    dtype = "bf16";
    repeats = 3;
  }

  int devices = 2;
  int fold = 4;
};

/// One way to use the same cores.
struct Way {
  std::string name;
  engine::Layout layout;
  int threads = 1;  ///< of each device
  int tensor_shards = 0;
};

/// Seconds of the second step, after one that warms up.
double time_step(const engine::CompiledStep& step, int threads) {
  double seconds = 0;
  comm::run_pinned(step.devices(), threads, [&](comm::Communicator& world) {
    TrialDevice device(step, threads, world);
    device.step();
    const double mine = device.step();
    if (world.rank() == 0) seconds = mine;
  });
  return seconds;
}

/// Ways to do the same, the first of which the others are compared with.
using Comparison = std::vector<Way>;

std::vector<Comparison> comparisons(const ParallelFlags& flags) {
  const int n = flags.devices;
  const Comparison layers = {
      {fmt::format("one device, {} threads", n), {}, n},
      {fmt::format("tensor {}", n), {.tensor = n}},
      {fmt::format("tensor {}, sequence parallel", n), {.tensor = n, .sequence_parallel = true}},
      {fmt::format("one device, {} threads, {} tensor shards", n, flags.fold), {}, n, flags.fold}};
  Comparison replicas;
  for (int zero = 0; zero <= 3; ++zero)
    replicas.push_back({fmt::format("data {}, zero {}", n, zero), {.data = n, .zero = zero}});
  if (n == 1) return {layers};
  return {layers, replicas};
}

/// What became of one way.
struct Result {
  std::string name;
  std::string against;
  double seconds = 0;
  double speed = 0;        ///< of the first way's seconds over this one's, the median of the rounds
  std::int64_t bytes = 0;  ///< planned for the first device
};

/// The ways take turns, so that a machine that slows down slows all of them.
std::vector<Result> compare(const Graph& model, const Comparison& ways, int rounds) {
  std::vector<engine::CompiledStep> steps;
  for (const Way& way : ways) {
    steps.push_back(engine::compile(
        model, {.layout = way.layout, .tensor_shards = way.tensor_shards, .threads = way.threads}));
  }
  std::vector<std::vector<double>> seconds(ways.size());
  std::vector<std::vector<double>> speeds(ways.size());
  for (int round = 0; round < rounds; ++round) {
    for (std::size_t i = 0; i < ways.size(); ++i) {
      seconds[i].push_back(time_step(steps[i], ways[i].threads));
      speeds[i].push_back(seconds[0].back() / seconds[i].back());
    }
  }
  std::vector<Result> results;
  for (std::size_t i = 0; i < ways.size(); ++i) {
    results.push_back({ways[i].name, ways[0].name, median(seconds[i]), median(speeds[i]),
                       steps[i].planned_on(0)});
  }
  return results;
}

nlohmann::json to_json(const Result& result) {
  return {{"layout", result.name},
          {"against", result.against},
          {"step_seconds", result.seconds},
          {"speed", result.speed},
          {"planned_bytes", result.bytes}};
}

void run(const ParallelFlags& flags) {
  require(flags.devices >= 1, "--devices must be at least 1");
  const Graph model = model_of(flags);
  nlohmann::json report = nlohmann::json::array();
  if (!flags.json) fmt::print("{}, median of {}\n", text_of(flags), flags.repeats);
  for (const Comparison& ways : comparisons(flags)) {
    for (const Result& result : compare(model, ways, flags.repeats)) {
      report.push_back(to_json(result));
      if (flags.json) continue;
      fmt::print("  {:<42} {:8.3f} s   {:.2f}   {}\n", result.name, result.seconds, result.speed,
                 format_bytes(result.bytes));
    }
  }
  if (flags.json) fmt::print("{}", json_text(nlohmann::json{{"layouts", report}}));
}

}  // namespace

void add_bench_parallel_command(CLI::App& bench) {
  auto flags = std::make_shared<ParallelFlags>();
  CLI::App* command = bench.add_subcommand(
      "parallel",
      "A step cut inside its layers against one device with as many threads; replicas that share "
      "their state (ZeRO) against those that do not.");
  command->footer("Example: cleave bench parallel --preset gpt2-124m --dtype bf16");
  add_step_flags(*command, *flags);
  command->add_option("--devices", flags->devices, "Devices, of one thread each")
      ->capture_default_str();
  command->add_option("--fold", flags->fold, "Tensor shards that one device runs")
      ->capture_default_str();
  command->callback([flags] { run(*flags); });
}

}  // namespace cleave::app
