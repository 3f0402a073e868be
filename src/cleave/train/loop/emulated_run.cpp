#include "cleave/train/loop/emulated_run.h"

#include <algorithm>
#include <chrono>
#include <limits>
#include <memory>
#include <utility>

#include "cleave/base/check.h"
#include "cleave/comm/local/local_world.h"
#include "cleave/comm/together.h"
#include "cleave/engine/compile/step_stages.h"
#include "cleave/engine/measure/link_profile.h"
#include "cleave/engine/run/emulated_device.h"
#include "cleave/plan/time/simulator.h"
#include "cleave/train/loop/feature_cache.h"
#include "cleave/train/step/emulation.h"

namespace cleave::train {
namespace {

using Clock = std::chrono::steady_clock;

void require_fresh(const StartOptions& start) {
  require(start.existing != Existing::Resume && start.init_from.empty(),
          start.init_from.empty() ? "--resume" : "--init-from",
          " needs weights, and emulated devices have none; leave it out, or leave out "
          "devices.emulate");
}

/// As many as asked for, or until some device is asked to stop.
StepTimes run_steps(engine::Executor& executor, std::int64_t most) {
  StepTimes steps;
  bool stop = false;
  while (steps.steps() < most && !stop) {
    const Clock::time_point start = Clock::now();
    stop = executor.run({.stop = stop_was_requested()}).stop;
    const std::chrono::duration<double> seconds = Clock::now() - start;
    steps.note(seconds.count(), executor.spans(), {}, executor.held_up());
  }
  return steps;
}

RunReport run_device(const Config& config, const RunOptions& options,
                     const engine::CompiledStep& compiled, comm::Communicator& world) {
  const schedule::Program& program = compiled.program;
  const Mesh& mesh = compiled.mesh;
  const int index = world.rank();
  const int place = mesh.place_of(index);
  const auto peers = world.group(mesh.peers_of(mesh.number_of(index)));
  const auto group = world.group(mesh.group_at(place));
  const engine::EmulatedTimes times = emulated_times(config);
  engine::EmulatedDevice device(program, engine::emulated_costs(program, times, place), place,
                                {.world = world, .peers = {world, mesh, index}, .group = *group});
  world.set_patience(options.patience);

  plan::Costs costs = engine::emulated_costs(program, times);
  costs.edges = engine::profile_links(program, *peers);
  for (plan::LinkCosts& link : costs.edges) {
    link.latency += times.link;
    link.credit += times.link;
  }
  RunReport report;
  report.predicted = predicted_step(compiled, costs, {});
  report.predicted_step_seconds = report.predicted->summary.makespan;
  report.predicted_range = {.low = (1 - kError) * *report.predicted_step_seconds,
                            .high = (1 + kError) * *report.predicted_step_seconds};

  const comm::Sent sent = world.sent();
  const StepTimes steps = run_steps(device.executor(), config.train.steps);
  report.steps = steps.steps();
  report.stopped = report.steps < config.train.steps;
  report.step_seconds = steps.seconds();
  DeviceReport mine{.peak_bytes = device.arena().peak(),
                    .planned_bytes = compiled.planned_on(index),
                    .outside_bytes = device.outside().peak(),
                    .planned_outside_bytes = compiled.outside_on(index),
                    .budget_bytes = compiled.budgets.empty() ? 0 : compiled.budgets[index],
                    .parameters = engine::parameters_of(compiled, index),
                    .planned_sent = compiled.traffic[index]};
  steps.tell(mine);
  if (steps.steps() > 0) {
    const comm::Sent all = world.sent() - sent;
    mine.sent = {.message = all.message / steps.steps(), .numbers = all.numbers / steps.steps()};
  }
  report.devices = gather_reports(mine, index, mesh.devices(), world);
  report.bubble = bubble_of(report.devices);
  report.idle = idle_of(report.devices, report.step_seconds);
  if (options.trace) report.measured = measured_step(compiled, device.executor(), world);
  return report;
}

}  // namespace

RunReport run_emulated(const Config& config, const RunOptions& options, RunObserver& observer,
                       comm::Launcher& launcher) {
  engine::CompiledStep compiled;
  comm::together(launcher.processes(), [&] {
    require_fresh(options.start);
    check_cached_tower(config, FileAccess::Shared);
    compiled = engine::compile_emulated(model_of(config), compile_options(config));
  });
  if (launcher.processes().rank() == 0) observer.on_compiled(compiled);
  RunReport report;
  launcher.run(
      compiled.devices(), comm::kNoThreads,
      [&](comm::Communicator& devices) {
        RunReport mine = run_device(config, options, compiled, devices);
        if (devices.rank() == 0 || launcher.devices()) report = std::move(mine);
      },
      [&](const std::exception& error) { observer.on_stuck(error); });
  return report;
}

}  // namespace cleave::train
