#include "bench/bench_overhead.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <vector>

#include "files.h"
#include "json_text.h"
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "cleave/base/median.h"
#include "cleave/comm/local/local_world.h"
#include "cleave/engine/run/device.h"
#include "cleave/model/presets.h"
#include "cleave/train/step/random_source.h"
#include "cleave/train/step/run_optimizer.h"

namespace cleave::app {
namespace {

constexpr int kDevices = 2;

struct Rounds {
  std::vector<double> steps;
  std::vector<double> alone;  ///< of the slower half
};

double seconds_of(comm::Communicator& world, const auto& work) {
  world.barrier().wait();
  const auto start = std::chrono::steady_clock::now();
  work();
  std::array<double, 1> seconds = {
      std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count()};
  world.combine(seconds, comm::Combine::Max);
  return seconds[0];
}

Rounds measure(const engine::CompiledStep& step, const OverheadFlags& flags,
               comm::Communicator& world) {
  engine::Device device(step, world.rank(), 1, world);
  device.initialise(1);
  train::RunOptimizer optimizer({.clip = 1.0});
  train::RandomSource source(1, step.model);
  const float tokens = static_cast<float>(loss_count(step.model) * flags.microbatches);
  const engine::StepInput input{
      .source = &source, .optimizer = &optimizer, .loss_scale = 1.0f / tokens};
  optimizer.begin_step(0);
  device.executor().compute_alone(input);  // touches the memory
  device.clear_slots();
  device.initialise(1);

  Rounds rounds;
  for (int i = 0; i < flags.repeats; ++i) {
    optimizer.begin_step(i);
    rounds.steps.push_back(seconds_of(world, [&] { (void)device.executor().run(input); }));
    rounds.alone.push_back(seconds_of(world, [&] { device.executor().compute_alone(input); }));
    device.clear_slots();  // a half alone trains on whatever its buffers hold
    device.initialise(1);
  }
  return rounds;
}

}  // namespace

void bench_overhead(const OverheadFlags& flags) {
  const Graph model = model::graph_of(model::find_preset("gpt2-124m").shape,
                                      {.sequences = 1, .sequence = 256, .dtype = DType::BF16});
  const engine::CompiledStep step =
      engine::compile(model, {.layout = {.pipeline = kDevices, .schedule = flags.schedule},
                              .microbatches = flags.microbatches});
  Rounds rounds;
  comm::run_pinned(kDevices, 1, [&](comm::Communicator& world) {
    Rounds mine = measure(step, flags, world);
    if (world.rank() == 0) rounds = std::move(mine);
  });
  const double taken = median(rounds.steps);
  const double alone = median(rounds.alone);
  if (flags.json) {
    const nlohmann::json report = {
        {"schedule", flags.schedule}, {"microbatches", flags.microbatches},
        {"step_seconds", taken},      {"alone_seconds", alone},
        {"ratio", taken / alone},     {"steps", rounds.steps},
        {"alone", rounds.alone}};
    return write_file("", json_text(report));
  }
  write_file("", fmt::format("gpt2-124m bf16 on 2 devices, {}, {} microbatches of 1 x 256 tokens, "
                             "median of {}\n  step         {:8.3f} s\n  slower half  {:8.3f} s, "
                             "alone\n  ratio        {:8.4f}\n",
                             flags.schedule, flags.microbatches, flags.repeats, taken, alone,
                             taken / alone));
}

}  // namespace cleave::app
