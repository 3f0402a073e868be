#include <chrono>
#include <memory>
#include <vector>

#include "command.h"
#include "median.h"
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "cleave/comm/local/local_world.h"
#include "cleave/comm/pinning.h"
#include "cleave/runtime/device.h"
#include "cleave/spec/presets.h"
#include "cleave/train/adamw.h"
#include "cleave/train/random_source.h"

namespace cleave::app {
namespace {

struct Flags {
  std::string preset = "gpt2-124m";
  std::string dtype = "bf16";
  std::int64_t microbatch = 4;
  std::int64_t sequence = 256;
  int devices = 2;
  int fold = 4;
  int repeats = 3;
  bool json = false;
};

/// One way to use the same cores.
struct Way {
  std::string name;
  runtime::Layout layout;
  int threads = 1;  ///< of each device
  int tensor_shards = 0;
};

double step_seconds(const ModelSpec& model, const Way& way, int repeats) {
  const runtime::CompiledStep step = runtime::compile(
      model, {.layout = way.layout, .tensor_shards = way.tensor_shards, .threads = way.threads});
  const comm::Pinning pinning =
      comm::plan_pinning(comm::allowed_cores(), step.devices(), way.threads);
  std::vector<double> steps;
  comm::run_devices(step.devices(), [&](comm::Communicator& world) {
    if (world.size() > 1) comm::pin_this_thread(pinning.devices[world.rank()]);
    runtime::Device device(step, world.rank(), way.threads, &world);
    device.initialise(1);
    train::AdamW optimizer({.clip = 1.0});
    train::RandomSource source(1, model.shape.vocab);
    for (int i = -1; i < repeats; ++i) {  // the first round warms up
      optimizer.begin_step(i + 1);
      const auto start = std::chrono::steady_clock::now();
      device.executor().run({.source = &source,
                             .optimizer = &optimizer,
                             .loss_scale = 1.0f / static_cast<float>(model.flow.tokens())});
      const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
      if (i >= 0 && world.rank() == 0) steps.push_back(seconds.count());
    }
  });
  return median(steps);
}

void run(const Flags& flags) {
  require(flags.microbatch >= 1 && flags.sequence >= 1 && flags.devices >= 1 && flags.repeats >= 1,
          "--microbatch, --sequence, --devices and --repeats must be at least 1");
  const ModelSpec model = model_spec(find_preset(flags.preset).shape,
                                     {.sequences = flags.microbatch,
                                      .sequence = flags.sequence,
                                      .dtype = flags.dtype == "bf16" ? DType::BF16 : DType::F32});
  const int n = flags.devices;
  const std::vector<Way> ways = {
      {fmt::format("one device, {} threads", n), {}, n},
      {fmt::format("tensor {}", n), {.tensor = n}},
      {fmt::format("tensor {}, sequence parallel", n), {.tensor = n, .sequence_parallel = true}},
      {fmt::format("one device, {} threads, {} tensor shards", n, flags.fold), {}, n, flags.fold}};
  nlohmann::json report = nlohmann::json::array();
  double first = 0;
  if (!flags.json) {
    fmt::print("{} {}, {} x {} tokens, median of {}\n", flags.preset, flags.dtype, flags.microbatch,
               flags.sequence, flags.repeats);
  }
  for (const Way& way : ways) {
    const double seconds = step_seconds(model, way, flags.repeats);
    if (first == 0) first = seconds;
    report.push_back({{"layout", way.name}, {"step_seconds", seconds}, {"speed", first / seconds}});
    if (!flags.json)
      fmt::print("  {:<42} {:8.3f} s   {:.2f}\n", way.name, seconds, first / seconds);
  }
  if (flags.json) fmt::print("{}\n", report.dump());
}

}  // namespace

void add_bench_parallel_command(CLI::App& bench) {
  auto flags = std::make_shared<Flags>();
  CLI::App* command = bench.add_subcommand(
      "parallel", "A step cut inside its layers against one device with as many threads.");
  command->footer("Example: cleave bench parallel --preset gpt2-124m --dtype bf16");
  command->add_option("--preset", flags->preset, "Model")->capture_default_str();
  command->add_option("--dtype", flags->dtype, "f32 or bf16")
      ->check(CLI::IsMember({"f32", "bf16"}))
      ->capture_default_str();
  command->add_option("--microbatch", flags->microbatch, "Sequences of the step")
      ->capture_default_str();
  command->add_option("--sequence", flags->sequence, "Tokens of a sequence")->capture_default_str();
  command->add_option("--devices", flags->devices, "Devices, of one thread each")
      ->capture_default_str();
  command->add_option("--fold", flags->fold, "Tensor shards that one device runs")
      ->capture_default_str();
  command->add_option("--repeats", flags->repeats, "Steps to take the median of")
      ->capture_default_str();
  command->add_flag("--json", flags->json, "One JSON object on stdout");
  command->callback([flags] { run(*flags); });
}

}  // namespace cleave::app
