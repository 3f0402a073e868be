#include <chrono>
#include <memory>
#include <vector>

#include "command.h"
#include "median.h"
#include "step_flags.h"
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "cleave/base/units.h"
#include "cleave/comm/local/local_world.h"
#include "cleave/comm/pinning.h"
#include "cleave/runtime/device.h"
#include "cleave/train/adamw.h"
#include "cleave/train/random_source.h"

namespace cleave::app {
namespace {

struct Flags : StepFlags {
  Flags() {
    dtype = "bf16";
    repeats = 3;
  }

  int devices = 2;
  int fold = 4;
};

/// One way to use the same cores.
struct Way {
  std::string name;
  runtime::Layout layout;
  int threads = 1;  ///< of each device
  int tensor_shards = 0;
};

/// Seconds of one step, with nothing else in memory.
double time_step(const runtime::CompiledStep& step, int threads) {
  const comm::Pinning pinning = comm::plan_pinning(comm::allowed_cores(), step.devices(), threads);
  double seconds = 0;
  comm::run_devices(step.devices(), [&](comm::Communicator& world) {
    if (world.size() > 1) comm::pin_this_thread(pinning.devices[world.rank()]);
    runtime::Device device(step, world.rank(), threads, &world);
    device.initialise(1);
    train::AdamW optimizer({.clip = 1.0});
    train::RandomSource source(1, step.model.shape.vocab);
    for (const bool warms_up : {true, false}) {
      optimizer.begin_step(warms_up ? 0 : 1);
      const auto start = std::chrono::steady_clock::now();
      device.executor().run({.source = &source,
                             .optimizer = &optimizer,
                             .loss_scale = 1.0f / static_cast<float>(step.model.flow.tokens())});
      if (world.rank() == 0)
        seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    }
  });
  return seconds;
}

/// Ways to do the same, the first of which the others are compared with.
using Comparison = std::vector<Way>;

std::vector<Comparison> comparisons(const Flags& flags) {
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

/// The ways take turns: a machine that is slow for a while is so for all of them.
void compare(const Comparison& ways, const Flags& flags, nlohmann::json& report) {
  const ModelSpec model = model_of(flags);
  std::vector<runtime::CompiledStep> steps;
  for (const Way& way : ways)
    steps.push_back(runtime::compile(
        model, {.layout = way.layout, .tensor_shards = way.tensor_shards, .threads = way.threads}));
  std::vector<std::vector<double>> seconds(ways.size());
  for (int turn = 0; turn < flags.repeats; ++turn) {
    for (std::size_t w = 0; w < ways.size(); ++w)
      seconds[w].push_back(time_step(steps[w], ways[w].threads));
  }
  for (std::size_t w = 0; w < ways.size(); ++w) {
    const double step = median(seconds[w]);
    const double speed = median(seconds[0]) / step;
    const std::int64_t bytes = steps[w].planned_on(0);
    report.push_back({{"layout", ways[w].name},
                      {"against", ways[0].name},
                      {"step_seconds", step},
                      {"speed", speed},
                      {"planned_bytes", bytes}});
    if (!flags.json)
      fmt::print("  {:<42} {:8.3f} s   {:.2f}   {}\n", ways[w].name, step, speed,
                 format_bytes(bytes));
  }
}

void run(const Flags& flags) {
  require(flags.devices >= 1, "--devices must be at least 1");
  nlohmann::json report = nlohmann::json::array();
  if (!flags.json) fmt::print("{}, median of {} turns\n", text_of(flags), flags.repeats);
  for (const Comparison& ways : comparisons(flags)) compare(ways, flags, report);
  if (flags.json) fmt::print("{}\n", nlohmann::json{{"layouts", report}}.dump());
}

}  // namespace

void add_bench_parallel_command(CLI::App& bench) {
  auto flags = std::make_shared<Flags>();
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
