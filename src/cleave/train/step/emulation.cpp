#include "cleave/train/step/emulation.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "cleave/plan/tune/stage_gradients.h"
#include "cleave/train/step/trainer.h"

namespace cleave::train {
namespace {

/// A tensor group is as slow as its slowest device.
std::vector<double> speed_of_places(const std::vector<double>& devices, const Mesh& mesh) {
  if (devices.size() < 2)
    return std::vector<double>(mesh.places(), devices.empty() ? 1 : devices[0]);
  std::vector<double> places(mesh.places(), std::numeric_limits<double>::infinity());
  for (int d = 0; d < mesh.devices(); ++d)
    places[mesh.place_of(d)] = std::min(places[mesh.place_of(d)], devices[d]);
  return places;
}

}  // namespace

std::vector<plan::StageCosts> emulated_segments(const Config& config, const Graph& model) {
  const Emulation& times = *config.devices.emulate;
  const double share = times.per_layer ? static_cast<double>(*config.train.microbatch) /
                                             static_cast<double>(config.parallel.tensor.value_or(1))
                                       : static_cast<double>(config.parallel.pipeline.value_or(1)) /
                                             static_cast<double>(config.model.blocks());
  std::vector<plan::StageCosts> segments;
  for (const schedule::GradientKind kind : plan::segment_gradients(model)) {
    const bool block = model.segments[segments.size()].block;
    plan::StageCosts& segment = segments.emplace_back();
    if (!block) continue;
    segment.forward = times.f * share;
    if (schedule::makes_input_gradient(kind)) segment.input = times.i * share;
    if (schedule::makes_weight_gradient(kind)) segment.weight = times.w * share;
  }
  return segments;
}

engine::EmulatedTimes emulated_times(const Config& config) {
  const Mesh mesh = compile_options(config).layout.mesh();
  std::vector<double> speed = speed_of_places(config.devices.speed, mesh);
  const Emulation& times = *config.devices.emulate;
  const double device =
      times.per_layer ? static_cast<double>(config.model.blocks() * *config.train.microbatch) /
                            static_cast<double>(*config.parallel.pipeline * mesh.tensor)
                      : 1;
  engine::EmulatedTimes emulated{.f = times.f * device,
                                 .i = times.i * device,
                                 .w = times.w * device,
                                 .link = times.link,
                                 .outside_per_byte = times.host > 0 ? 1 / times.host : 0,
                                 .speed = std::move(speed)};
  // Stages that are given, or are of modules, take time by their layers.
  const bool of_modules = times.per_layer && config.parallel.placement != Placement::Even;
  if (config.parallel.partition || of_modules)
    emulated.segments = emulated_segments(config, model_of(config));
  return emulated;
}

plan::Costs emulated_costs(const Config& config, const schedule::Program& program) {
  return engine::emulated_costs(program, emulated_times(config));
}

}  // namespace cleave::train
