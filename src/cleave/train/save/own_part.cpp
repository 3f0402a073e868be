#include "cleave/train/save/own_part.h"

#include <algorithm>
#include <cmath>
#include <set>

#include "cleave/base/check.h"
#include "cleave/base/version.h"
#include "cleave/checkpoint/directory.h"
#include "cleave/checkpoint/writer.h"
#include "cleave/comm/local/local_world.h"
#include "cleave/comm/together.h"
#include "cleave/train/step/owner_part.h"
#include "cleave/train/step/round_slots.h"

namespace cleave::train {
namespace {

namespace fs = std::filesystem;

// A crash may come when some have saved a step and others have not.
constexpr std::int64_t kLeastKept = 2;

// How the directories of a server's other devices begin.
constexpr std::string_view kForClient = "for-", kPlace = "place-";

void write_part(const SavePoint& at, std::int64_t step) {
  checkpoint::prepare_checkpoint(at.root(), step, *at.layout);
  checkpoint::CheckpointWriter writer(at.root(), step, *at.layout, 0);
  const auto& parameters = at.layout->parameters();
  std::set<std::string> written;
  for (const auto* tensors : {&at.device->tensors(), &at.device->copies()}) {
    for (const engine::TensorState& tensor : *tensors) {
      if (!written.insert(tensor.name).second) continue;
      const auto found =
          std::ranges::lower_bound(parameters, tensor.name, {}, &checkpoint::Parameter::name);
      const auto index = static_cast<std::size_t>(found - parameters.begin());
      tensor.for_each_weight_run([&](std::int64_t first, std::span<float> run) {
        writer.write(checkpoint::Part::Weight, index, first, run);
      });
      for (std::size_t i = 0; i < tensor.slots.size(); ++i) {
        if (is_transient(tensor.slots[i].name)) break;
        tensor.for_each_run(tensor.slots[i].values, [&](std::int64_t first, std::span<float> run) {
          writer.write(static_cast<checkpoint::Part>(i), index, first, run);
        });
      }
    }
  }
  writer.finish();
}

/// The step that a start found; 0 if it found nothing.
std::int64_t step_of(const Start& start) {
  if (start.resume_from.empty()) return 0;
  return checkpoint::CheckpointReader(start.resume_from).state().step;
}

}  // namespace

checkpoint::CheckpointLayout part_layout(const engine::CompiledStep& step,
                                         const checkpoint::CheckpointLayout& whole, int device) {
  const std::vector<std::string> names = parameters_on(step, device);
  std::vector<checkpoint::Parameter> parameters = whole.parameters();
  std::erase_if(parameters, [&](const checkpoint::Parameter& parameter) {
    return !std::ranges::binary_search(names, parameter.name);
  });
  return checkpoint::CheckpointLayout(std::move(parameters));
}

bool keeps_part(const engine::CompiledStep& step, const Config& config, int device) {
  const int owner = device_owners(config)[static_cast<std::size_t>(device)];
  const bool client =
      config.edge.owners[static_cast<std::size_t>(owner)].role == edge::Role::Client;
  return client || step.replica_of(device) == 0 || !client_cuts(config).empty();
}

bool is_server_directory(std::string_view name) {
  return name.starts_with(kForClient) || name.starts_with(kPlace);
}

std::string server_directory(const engine::CompiledStep& step, const Config& config, int device) {
  const int stages = step.mesh.pipeline;
  const int place = step.place_of(device) % stages;
  fs::path directory(config.train.out);
  // Where clients cut the model at different places, what is left of it differs as well.
  if (const int replica = step.replica_of(device); replica > 0 && !client_cuts(config).empty())
    directory /= detail::concat(
        kForClient, config.edge.owners[config.edge.with_role(edge::Role::Client)[replica]].name);
  if (place < stages - 1) directory /= detail::concat(kPlace, place);
  return directory.string();
}

Start prepare_parts(const PartOfRun& part, const StartOptions& options, std::string& warning) {
  const Config& config = *part.config;
  comm::Communicator& world = *part.world;
  comm::LocalWorld one(1);
  const std::unique_ptr<comm::Communicator> alone = one.join(0);
  Start start;
  comm::together(world, [&] {
    if (part.keeps) start = prepare_start(config, options, *part.layout, *alone);
  });
  const std::int64_t newest = step_of(start);
  double steps[] = {-static_cast<double>(newest), static_cast<double>(newest)};
  if (!part.keeps) steps[0] = -HUGE_VAL;
  world.combine(steps, comm::Combine::Max);
  const auto common = static_cast<std::int64_t>(-steps[0]);
  if (steps[1] > -steps[0])
    warning = detail::concat("some owners have step ", steps[1], " and others none after step ",
                             common, "; all go on from there");
  comm::together(world, [&] {
    start.resume_from = common == 0 ? fs::path()
                                    : checkpoint::checkpoint_path(
                                          fs::path(config.train.out) / "checkpoints", common);
    require(common == 0 || fs::exists(start.resume_from), "there is no ",
            start.resume_from.string(),
            ", and it is the newest step that all owners have; begin anew with --overwrite");
  });
  start.finished = common >= config.train.steps;
  return start;
}

void save_part(const SavePoint& at, bool keeps, std::int64_t step) {
  comm::together(*at.world, [&] {
    if (!keeps) return;
    write_part(at, step);
    Config config = *at.config;
    config.from.clear();
    checkpoint::commit_checkpoint(at.root(), *at.layout,
                                  {.step = step,
                                   .data_position = step,
                                   .seed = at.config->train.seed,
                                   .config = to_toml(config),
                                   .version = std::string(version()),
                                   .data = at.data},
                                  /*writers=*/1, std::max(kLeastKept, at.config->train.keep));
  });
}

}  // namespace cleave::train
