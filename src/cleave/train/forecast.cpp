#include "cleave/train/forecast.h"

#include <iterator>
#include <utility>

#include "cleave/comm/local/local_world.h"
#include "cleave/runtime/matmul_rate.h"
#include "cleave/runtime/profile.h"
#include "cleave/train/adamw.h"
#include "cleave/train/emulated_run.h"
#include "cleave/train/random_source.h"
#include "cleave/train/trainer.h"

namespace cleave::train {
namespace {

plan::Costs profile_device(const Config& config, const runtime::CompiledStep& step,
                           comm::Communicator* world, double at_once) {
  const int index = world == nullptr ? 0 : world->rank();
  runtime::Device device(step, index, static_cast<int>(config.devices.threads), world);
  RandomSource source(1, config.model.vocab);
  AdamW optimizer(config.train);
  optimizer.begin_step(0);
  return runtime::profile(step, device, {.source = &source, .optimizer = &optimizer}, world,
                          {.at_once = at_once});
}

plan::Costs profile_run(const Config& config, const runtime::CompiledStep& step, double at_once) {
  const int devices = step.devices();
  if (devices == 1) return profile_device(config, step, nullptr, at_once);
  plan::Costs costs;
  const int threads = static_cast<int>(config.devices.threads);
  comm::run_pinned(devices, threads, [&](comm::Communicator& world) {
    plan::Costs mine = profile_device(config, step, &world, at_once);
    if (world.rank() == 0) costs = std::move(mine);
  });
  return costs;
}

}  // namespace

Forecast forecast(const Config& config) {
  runtime::CompileOptions options = compile_options(config);
  const std::vector<std::int64_t> budgets = std::exchange(options.budgets, {});
  const bool emulated = config.devices.emulate.has_value();
  Forecast result{.step = emulated ? runtime::compile_emulated(model_of(config), options)
                                   : runtime::compile(model_of(config), options),
                  .predicted = {}};
  if (emulated) {
    result.predicted = predicted_step(result.step, emulated_costs(config, result.step.program), {});
  } else {
    const double at_once =
        runtime::devices_at_once(result.step.devices(), static_cast<int>(config.devices.threads));
    result.predicted = predicted_step(result.step, profile_run(config, result.step, at_once),
                                      {.at_once = at_once / result.step.mesh.tensor});
  }
  result.step.budgets = budgets;
  result.fits = true;
  for (int d = 0; d < std::ssize(budgets); ++d)
    result.fits = result.fits && result.step.planned_on(d) <= budgets[d];
  return result;
}

}  // namespace cleave::train
