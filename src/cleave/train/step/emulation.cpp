#include "cleave/train/step/emulation.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "cleave/train/step/trainer.h"

namespace cleave::train {
namespace {

/// Stages of a given partition take time by their layers.
std::vector<double> shares_of(const Config& config) {
  std::vector<double> shares;
  if (!config.parallel.partition) return shares;
  const auto& partition = *config.parallel.partition;
  const double stages = static_cast<double>(partition.size());
  for (const std::int64_t layers : partition)
    shares.push_back(static_cast<double>(layers) * stages /
                     static_cast<double>(config.model.blocks()));
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

}  // namespace

engine::EmulatedTimes emulated_times(const Config& config) {
  const Mesh mesh = compile_options(config).layout.mesh();
  std::vector<double> speed = speed_of_places(config.devices.speed, mesh);
  const Emulation& times = *config.devices.emulate;
  const double device =
      times.per_layer ? static_cast<double>(config.model.blocks() * *config.train.microbatch) /
                            static_cast<double>(*config.parallel.pipeline * mesh.tensor)
                      : 1;
  return {.f = times.f * device,
          .i = times.i * device,
          .w = times.w * device,
          .link = times.link,
          .outside_per_byte = times.host > 0 ? 1 / times.host : 0,
          .speed = std::move(speed),
          .shares = shares_of(config)};
}

plan::Costs emulated_costs(const Config& config, const schedule::Program& program) {
  return engine::emulated_costs(program, emulated_times(config));
}

}  // namespace cleave::train
