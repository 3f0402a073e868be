#include "cleave/train/emulated_run.h"

#include <chrono>
#include <utility>

#include "cleave/base/check.h"
#include "cleave/comm/local/local_world.h"
#include "cleave/plan/simulator.h"
#include "cleave/runtime/emulated_device.h"
#include "cleave/runtime/link_profile.h"

namespace cleave::train {
namespace {

using Clock = std::chrono::steady_clock;

/// Stages of a given partition take time by their layers.
std::vector<double> shares_of(const Config& config) {
  std::vector<double> shares;
  if (!config.parallel.partition) return shares;
  const auto& partition = *config.parallel.partition;
  const double stages = static_cast<double>(partition.size());
  for (const std::int64_t layers : partition)
    shares.push_back(static_cast<double>(layers) * stages /
                     static_cast<double>(config.model.layers));
  return shares;
}

runtime::EmulatedTimes times_of(const Config& config) {
  const DevicesConfig& devices = config.devices;
  std::vector<double> speed = devices.speed;
  if (speed.size() == 1) speed.assign(static_cast<std::size_t>(devices.count), speed[0]);
  const Emulation& times = *devices.emulate;
  const double device = times.per_layer
                            ? static_cast<double>(config.model.layers * *config.train.microbatch) /
                                  static_cast<double>(*config.parallel.pipeline)
                            : 1;
  return {.f = times.f * device,
          .i = times.i * device,
          .w = times.w * device,
          .speed = std::move(speed),
          .shares = shares_of(config)};
}

RunReport run_device(const Config& config, const RunOptions& options,
                     const runtime::CompiledStep& compiled, comm::Communicator* world) {
  const schedule::Program& program = compiled.program;
  const int index = world == nullptr ? 0 : world->rank();
  const runtime::EmulatedTimes times = times_of(config);
  runtime::EmulatedDevice device(program, runtime::emulated_costs(program, times, index), index,
                                 world);
  if (world != nullptr) world->set_patience(options.patience);

  plan::Costs costs = runtime::emulated_costs(program, times);
  if (world != nullptr) costs.edges = runtime::profile_links(program, *world);
  RunReport report;
  report.predicted = predicted_step(compiled, costs, {});
  report.predicted_step_seconds = report.predicted->summary.makespan;

  StepTimes steps;
  bool stop = false;
  const std::int64_t sent = world == nullptr ? 0 : world->sent().message;
  while (steps.steps() < config.train.steps && !stop) {
    const Clock::time_point start = Clock::now();
    stop = device.executor().run({.stop = stop_was_requested()}).stop;
    const std::chrono::duration<double> seconds = Clock::now() - start;
    steps.note(seconds.count(), device.executor().spans(), {});
  }
  report.steps = steps.steps();
  report.stopped = report.steps < config.train.steps;
  report.step_seconds = steps.seconds();
  DeviceReport mine{.peak_bytes = device.arena().peak(),
                    .planned_bytes = compiled.planned_bytes[index],
                    .busy = steps.busy(),
                    .wait = steps.wait()};
  if (world != nullptr && steps.steps() > 0)
    mine.sent.message = (world->sent().message - sent) / steps.steps();
  report.devices = gather_reports(mine, index, program.devices, world);
  report.bubble = bubble_of(report.devices, report.step_seconds);
  if (options.trace) report.measured = measured_step(compiled, device.executor(), world);
  return report;
}

}  // namespace

plan::Costs emulated_costs(const Config& config, const schedule::Program& program) {
  return runtime::emulated_costs(program, times_of(config));
}

RunReport run_emulated(const Config& config, const RunOptions& options, RunObserver& observer,
                       comm::Communicator* world) {
  require(config.parallel.tensor == 1,
          "devices.emulate knows whole layers only; set parallel.tensor to 1");
  const runtime::CompiledStep compiled =
      runtime::compile_emulated(model_of(config), compile_options(config));
  if (world == nullptr || world->rank() == 0) observer.on_compiled(compiled);
  if (world != nullptr)
    return run_device(config, options, compiled, world->size() > 1 ? world : nullptr);
  if (compiled.program.devices == 1) return run_device(config, options, compiled, nullptr);
  RunReport report;
  comm::run_devices(
      compiled.program.devices,
      [&](comm::Communicator& devices) {
        RunReport mine = run_device(config, options, compiled, &devices);
        if (devices.rank() == 0) report = std::move(mine);
      },
      [&](const std::exception& error) { observer.on_stuck(error); });
  return report;
}

}  // namespace cleave::train
