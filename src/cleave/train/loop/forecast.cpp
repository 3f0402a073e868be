#include "cleave/train/loop/forecast.h"

#include <utility>

#include "cleave/base/check.h"
#include "cleave/comm/together.h"
#include "cleave/engine/measure/devices_at_once.h"
#include "cleave/engine/measure/profile.h"
#include "cleave/train/step/emulation.h"
#include "cleave/train/step/random_source.h"
#include "cleave/train/step/run_optimizer.h"
#include "cleave/train/step/trainer.h"

namespace cleave::train {
namespace {

plan::Costs profile_device(const Config& config, const engine::CompiledStep& step,
                           comm::Communicator& world, double at_once) {
  engine::Device device(step, world.rank(), static_cast<int>(config.devices.threads), world);
  RandomSource source(1, step.model);
  RunOptimizer optimizer(config.train);
  optimizer.begin_step(0);
  return engine::profile(step, device, {.source = &source, .optimizer = &optimizer}, world,
                         {.at_once = at_once})
      .costs;
}

plan::Costs profile_run(const Config& config, const engine::CompiledStep& step,
                        comm::Launcher& launcher, double at_once) {
  plan::Costs costs;
  const int threads = static_cast<int>(config.devices.threads);
  launcher.run(step.devices(), threads, [&](comm::Communicator& world) {
    plan::Costs mine = profile_device(config, step, world, at_once);
    if (world.rank() == 0 || launcher.devices()) costs = std::move(mine);
  });
  return costs;
}

/// As for a run where it fits; `fits` is set. An order that is searched depends on the budgets.
engine::CompiledStep compile_anyway(const Config& config, bool& fits) {
  fits = true;
  try {
    return compile_step(config);
  } catch (const DoesNotFit&) {
    fits = false;
  }
  engine::CompileOptions options = compile_options(config);
  std::vector<std::int64_t> budgets = std::exchange(options.budgets, {});
  engine::CompiledStep step = engine::compile(model_of(config), options);
  step.budgets = std::move(budgets);
  return step;
}

TracedStep emulated_step(const Config& config, bool fits) {
  engine::CompileOptions options = compile_options(config);
  if (!fits) options.budgets.clear();
  const engine::CompiledStep step = engine::compile_emulated(model_of(config), options);
  return predicted_step(step, emulated_costs(config, step.program), {});
}

}  // namespace

double at_once_of(const engine::CompiledStep& compiled, const Config& config,
                  comm::Launcher& launcher) {
  return engine::devices_at_once(launcher.processes(), compiled.devices(),
                                 static_cast<int>(config.devices.threads));
}

Forecast forecast(const Config& config, comm::Launcher& launcher) {
  Forecast result;
  comm::together(launcher.processes(), [&] { result.step = compile_anyway(config, result.fits); });
  if (config.devices.emulate) {
    result.predicted = emulated_step(config, result.fits);
    return result;
  }
  const double at_once = at_once_of(result.step, config, launcher);
  result.predicted =
      predicted_step(result.step, profile_run(config, result.step, launcher, at_once),
                     {.at_once = at_once / result.step.mesh.devices_per_place()});
  return result;
}

}  // namespace cleave::train
