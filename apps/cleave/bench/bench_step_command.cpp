#include <map>
#include <memory>
#include <vector>

#include "bench/step_flags.h"
#include "bench/trial_device.h"
#include "command.h"
#include "json_text.h"
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "cleave/base/median.h"
#include "cleave/comm/launcher.h"
#include "cleave/ops/gemm_limit.h"

namespace cleave::app {
namespace {

struct StepBenchFlags : StepFlags {
  int threads = 1;
};

/// The products of one step, each kind once with its count.
std::vector<CountedMatmul> products_of(const Graph& model) {
  std::map<MatmulSpec, std::int64_t> counts;
  for (const SegmentSpec& segment : model.segments) {
    for (const LayerSpec& layer : segment.layers) {
      for (const auto* pass : {&layer.forward, &layer.backward_input, &layer.backward_weight}) {
        for (const MatmulSpec& product : *pass) ++counts[product];
      }
    }
  }
  std::vector<CountedMatmul> products;
  for (const auto& [spec, count] : counts) products.push_back({spec, count});
  return products;
}

struct Timing {
  double step_seconds = 0;
  double gemm_seconds = 0;
};

/// Steps and bare products take turns, so that a machine that slows down slows both.
Timing measure(const StepBenchFlags& flags, const Graph& model,
               std::span<const CountedMatmul> products) {
  const engine::CompiledStep step = engine::compile(model, {.threads = flags.threads});
  comm::LocalLauncher here;
  TrialDevice device(step, flags.threads, here.processes());
  ops::Compute compute(flags.threads);
  ops::GemmLimit limit(compute, products);
  device.step();  // warms up
  limit.run();

  std::vector<double> steps;
  std::vector<double> gemms;
  for (int i = 0; i < flags.repeats; ++i) {
    steps.push_back(device.step());
    gemms.push_back(limit.run());
  }
  return {median(steps), median(gemms)};
}

nlohmann::json to_json(const CountedMatmul& product) {
  return {{"m", product.spec.m},    {"n", product.spec.n},
          {"k", product.spec.k},    {"batch", product.spec.batch},
          {"count", product.count}, {"dtype", to_string(product.spec.in)}};
}

void run(const StepBenchFlags& flags) {
  require(flags.threads >= 1, "--threads must be at least 1");
  const Graph model = model_of(flags);
  const std::vector<CountedMatmul> products = products_of(model);
  const Timing timing = measure(flags, model, products);
  const double rate = static_cast<double>(loss_count(model)) / timing.step_seconds;
  const std::string samples = samples_of(flags);
  const double gflops = static_cast<double>(cleave::flops(model)) / timing.step_seconds * 1e-9;
  const double efficiency = timing.gemm_seconds / timing.step_seconds;
  if (!flags.json) {
    fmt::print("{}, threads {}, median of {}\n", text_of(flags), flags.threads, flags.repeats);
    fmt::print("  step        {:8.3f} s   {:.{}f} {}/s, {:.1f} GFLOP/s\n", timing.step_seconds,
               rate, samples == "tokens" ? 0 : 2, samples, gflops);
    fmt::print("  bare gemms  {:8.3f} s\n  efficiency  {:8.3f}\n", timing.gemm_seconds, efficiency);
    return;
  }
  nlohmann::json gemms = nlohmann::json::array();
  for (const CountedMatmul& product : products) gemms.push_back(to_json(product));
  const nlohmann::json report = {{"step_seconds", timing.step_seconds},
                                 {"gemm_seconds", timing.gemm_seconds},
                                 {"efficiency", efficiency},
                                 {samples + "_per_second", rate},
                                 {"gflops", gflops},
                                 {"gemms", gemms}};
  fmt::print("{}", json_text(report));
}

}  // namespace

void add_bench_step_command(CLI::App& bench) {
  auto flags = std::make_shared<StepBenchFlags>();
  CLI::App* command = bench.add_subcommand(
      "step", "A training step on one device against the time of its matrix products alone.");
  command->footer("Example: cleave bench step --preset gpt2-124m --dtype bf16 --threads 2");
  add_step_flags(*command, *flags);
  command->add_option("--threads", flags->threads, "Threads of the device")->capture_default_str();
  command->callback([flags] { run(*flags); });
}

}  // namespace cleave::app
