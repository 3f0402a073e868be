#include "cleave/train/emulated_run.h"

#include <algorithm>
#include <chrono>
#include <limits>
#include <memory>
#include <utility>

#include "cleave/base/check.h"
#include "cleave/comm/local/local_world.h"
#include "cleave/comm/together.h"
#include "cleave/plan/simulator.h"
#include "cleave/runtime/emulated_device.h"
#include "cleave/runtime/link_profile.h"
#include "cleave/runtime/step_stages.h"

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

/// A tensor group is as slow as its slowest device.
std::vector<double> speed_of_places(const std::vector<double>& devices, const Mesh& mesh) {
  if (devices.size() < 2)
    return std::vector<double>(mesh.places(), devices.empty() ? 1 : devices[0]);
  std::vector<double> places(mesh.places(), std::numeric_limits<double>::infinity());
  for (int d = 0; d < mesh.devices(); ++d)
    places[mesh.place_of(d)] = std::min(places[mesh.place_of(d)], devices[d]);
  return places;
}

runtime::EmulatedTimes times_of(const Config& config) {
  const Mesh mesh = compile_options(config).layout.mesh();
  std::vector<double> speed = speed_of_places(config.devices.speed, mesh);
  const Emulation& times = *config.devices.emulate;
  const double device = times.per_layer
                            ? static_cast<double>(config.model.layers * *config.train.microbatch) /
                                  (mesh.pipeline * mesh.tensor)
                            : 1;
  return {.f = times.f * device,
          .i = times.i * device,
          .w = times.w * device,
          .speed = std::move(speed),
          .shares = shares_of(config)};
}

void require_fresh(const StartOptions& start) {
  require(start.existing != Existing::Resume && start.init_from.empty(),
          start.init_from.empty() ? "--resume" : "--init-from",
          " needs weights, and emulated devices have none; leave it out, or leave out "
          "devices.emulate");
}

/// As many as asked for, or until some device is asked to stop.
StepTimes run_steps(runtime::Executor& executor, std::int64_t most) {
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
                     const runtime::CompiledStep& compiled, comm::Communicator* world) {
  const schedule::Program& program = compiled.program;
  const Mesh& mesh = compiled.mesh;
  const int index = world == nullptr ? 0 : world->rank();
  const int place = mesh.place_of(index);
  std::unique_ptr<comm::Communicator> peers, group;
  if (world != nullptr) peers = world->group(mesh.peers_of(mesh.number_of(index)));
  if (mesh.tensor > 1) group = world->group(mesh.group_at(place));
  const runtime::EmulatedTimes times = times_of(config);
  runtime::EmulatedDevice device(program, runtime::emulated_costs(program, times, place), place,
                                 {.world = world, .peers = peers.get(), .group = group.get()});
  if (world != nullptr) world->set_patience(options.patience);

  plan::Costs costs = runtime::emulated_costs(program, times);
  if (peers != nullptr) costs.edges = runtime::profile_links(program, *peers);
  RunReport report;
  report.predicted = predicted_step(compiled, costs, {});
  report.predicted_step_seconds = report.predicted->summary.makespan;

  const comm::Sent sent = world == nullptr ? comm::Sent() : world->sent();
  const StepTimes steps = run_steps(device.executor(), config.train.steps);
  report.steps = steps.steps();
  report.stopped = report.steps < config.train.steps;
  report.step_seconds = steps.seconds();
  DeviceReport mine{.peak_bytes = device.arena().peak(),
                    .planned_bytes = compiled.planned_on(index),
                    .budget_bytes = compiled.budgets.empty() ? 0 : compiled.budgets[index],
                    .parameters = runtime::parameters_of(compiled, index),
                    .planned_sent = compiled.traffic[index],
                    .busy = steps.busy(),
                    .wait = steps.wait()};
  if (world != nullptr && steps.steps() > 0) {
    const comm::Sent all = world->sent() - sent;
    mine.sent = {.message = all.message / steps.steps(), .numbers = all.numbers / steps.steps()};
  }
  report.devices = gather_reports(mine, index, mesh.devices(), world);
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
  runtime::CompiledStep compiled;
  comm::together(world, [&] {
    require_fresh(options.start);
    compiled = runtime::compile_emulated(model_of(config), compile_options(config));
  });
  if (world == nullptr || world->rank() == 0) observer.on_compiled(compiled);
  if (world != nullptr)
    return run_device(config, options, compiled, world->size() > 1 ? world : nullptr);
  if (compiled.devices() == 1) return run_device(config, options, compiled, nullptr);
  RunReport report;
  comm::run_devices(
      compiled.devices(),
      [&](comm::Communicator& devices) {
        RunReport mine = run_device(config, options, compiled, &devices);
        if (devices.rank() == 0) report = std::move(mine);
      },
      [&](const std::exception& error) { observer.on_stuck(error); });
  return report;
}

}  // namespace cleave::train
