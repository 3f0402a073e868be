#include "cleave/train/tune/segment_profile.h"

#include <algorithm>
#include <array>
#include <filesystem>
#include <fstream>
#include <functional>
#include <optional>
#include <vector>

#include <fmt/format.h>
#include <unistd.h>

#include "cleave/base/cache_directory.h"
#include "cleave/base/hash.h"
#include "cleave/base/version.h"
#include "cleave/engine/measure/link_profile.h"
#include "cleave/engine/measure/machine.h"
#include "cleave/engine/measure/profile.h"
#include "cleave/ops/accelerator.h"
#include "cleave/plan/tune/partition.h"
#include "cleave/spec/trainable.h"
#include "cleave/train/step/emulation.h"
#include "cleave/train/step/random_source.h"
#include "cleave/train/step/run_optimizer.h"
#include "cleave/train/step/trainer.h"
#include "cleave/train/tune/auto_space.h"
#include "cleave/train/tune/few_blocks.h"

namespace cleave::train {
namespace {

namespace fs = std::filesystem;

/// Everything that is measured, in the order in which the cache has it.
std::vector<double*> profile_numbers(SegmentProfile& profile) {
  std::vector<double*> numbers;
  for (plan::StageCosts& part : profile.parts)
    numbers.insert(numbers.end(), {&part.forward, &part.input, &part.weight, &part.recompute});
  numbers.insert(numbers.end(), {&profile.step, &profile.norm});
  for (plan::LinkCosts* link : {&profile.link, &profile.sum})
    numbers.insert(numbers.end(), {&link->latency, &link->per_byte});
  return numbers;
}

/// The model, with few blocks where all are alike, on one device; of a chain each part that can be
/// cut off is a stage of its own.
Config stage_by_stage(const Config& config, schedule::Recompute recompute,
                      const std::string& kind) {
  Config small = config;
  if (has_alike_blocks(model_of(config))) small.model = with_few_blocks(config.model);
  // One matrix serves both ends: two would be most of what measuring holds, on devices of which
  // some will have neither. What a pattern of model.train names must stay what it is.
  if (config.trained.empty()) small.model.tie_embeddings = true;
  small.train.batch = *config.train.microbatch;
  small.devices = {
      .count = 1, .threads = config.devices.threads, .transport = config.devices.transport};
  if (kind != "cpu") small.devices.kind = {kind};
  if (config.devices.accelerated()) small.numerics.exact = config.numerics.exact.value_or(true);
  small.parallel = {};
  small.parallel.recompute = std::vector{recompute};
  if (is_graph(config)) {  // one stage, whose segments are told apart
    small.parallel.schedule = has_loss_over_step(config) ? "gpipe" : "zb-h1";
  } else {
    small.parallel.chunks = small.model.blocks() + 2;
    small.parallel.schedule = "interleaved";
    small.parallel.partition.emplace(small.model.blocks() + 2, 1);
    small.parallel.partition->front() = 0;
    small.parallel.partition->back() = 0;
  }
  small.numerics.data_shards = 1;
  small.numerics.tensor_shards = 1;
  return small;
}

/// Measures a message and a sum between the first two devices of `world`.
void measure_links(SegmentProfile& profile, comm::Communicator& world) {
  if (world.size() == 1) return;
  profile.link = engine::profile_link(world, 0, 1);
  profile.sum = engine::profile_sum(world, 0, 1);
}

/// [part] of a model, by what its segments take.
std::vector<plan::StageCosts> costs_of_parts(const std::vector<plan::StageCosts>& segments,
                                             const Graph& model) {
  std::vector<plan::StageCosts> parts;
  std::size_t segment = 0;
  for (const std::int64_t count : plan::parts_of(model)) {
    plan::StageCosts& part = parts.emplace_back();
    for (std::int64_t k = 0; k < count; ++k) {
      const plan::StageCosts& one = segments[segment++];
      part.add_passes(one);
      part.recompute += one.recompute;
    }
  }
  return parts;
}

SegmentProfile measure(const Config& small, comm::Launcher& launcher) {
  const engine::CompiledStep step = compile_step(small);
  comm::LocalLauncher here;
  comm::Communicator& alone = here.processes();
  engine::Device device(step, 0, static_cast<int>(small.devices.threads), alone);
  RandomSource source(1, step.model);
  RunOptimizer optimizer(small.train);
  optimizer.begin_step(0);
  const engine::Profile measured = engine::profile(
      step, device, {.source = &source, .optimizer = &optimizer}, alone, {.steps = 1});
  const plan::Costs& costs = measured.costs;
  const double parameters = static_cast<double>(trained_count(step.model.segments));
  SegmentProfile profile{.step = costs.steps[0] / parameters, .norm = costs.norm / parameters};
  if (is_graph(small)) {
    profile.parts = costs_of_parts(measured.segments[0], step.model);
  } else {
    for (const plan::StageCosts& stage : costs.stages)
      profile.parts.push_back({stage.forward, stage.input, stage.weight, stage.recompute});
  }
  if (launcher.devices()) {
    measure_links(profile, launcher.processes());
    return profile;
  }
  launcher.run(2, 1, [&](comm::Communicator& pair) {
    SegmentProfile mine = profile;
    measure_links(mine, pair);
    if (pair.rank() == 0) profile = mine;
  });
  return profile;
}

std::string key_of(Config small) {
  small.data = {};
  small.train = {.batch = small.train.batch,
                 .microbatch = small.train.microbatch,
                 .sequence = small.train.sequence,
                 .dtype = small.train.dtype,
                 .optimizer = small.train.optimizer,
                 .loss_blocks = small.train.loss_blocks};
  const engine::Machine machine = engine::look_at_machine();
  std::string drivers;
  if (small.devices.accelerated())
    for (const ops::AcceleratorInfo& info : ops::find_accelerators().all)
      drivers += info.kind + info.name + info.platform;
  Hasher hasher;
  for (const std::string& part :
       {std::string(version()), machine.processor, machine.instructions.simd,
        machine.instructions.onednn, std::to_string(machine.allowed), drivers, to_toml(small)}) {
    hasher.add(part);
    hasher.add("\n");
  }
  return to_hex(hasher.digest());
}

bool read_profile(const fs::path& path, SegmentProfile& profile) {
  std::ifstream file(path);
  for (double* number : profile_numbers(profile)) file >> *number;
  return static_cast<bool>(file);
}

/// A cache that cannot be written only costs time.
void write_profile(const fs::path& path, SegmentProfile profile) {
  std::error_code ignored;
  fs::create_directories(path.parent_path(), ignored);
  const fs::path fresh = path.string() + fmt::format(".{}", ::getpid());
  std::ofstream file(fresh);
  for (const double* number : profile_numbers(profile)) file << fmt::format("{}\n", *number);
  file.close();
  if (file) fs::rename(fresh, path, ignored);
}

SegmentProfile emulated(const Config& config) {
  const Graph model = model_of(config);
  const double link = config.devices.emulate->link;
  return {.parts = costs_of_parts(emulated_segments(config, model), model),
          .link = {.latency = link, .credit = link}};
}

SegmentProfile find_or_measure(const Config& small, comm::Launcher& launcher) {
  const std::optional<fs::path> directory = cache_directory();
  const fs::path path = directory ? *directory / ("profile-" + key_of(small)) : fs::path();
  SegmentProfile profile;
  profile.parts.resize(small.model.blocks() + 2);
  const bool found = directory && read_profile(path, profile);
  // If one device has to measure, all do: measuring beside idle cores is something else than
  // measuring beside busy ones.
  std::array<double, 1> missing = {found ? 0.0 : 1.0};
  launcher.processes().combine(missing, comm::Combine::Max);
  if (missing[0] > 0) {
    profile = measure(small, launcher);
    if (directory) write_profile(path, profile);
  }
  std::vector<double> most;
  for (const double* number : profile_numbers(profile)) most.push_back(*number);
  launcher.processes().combine(most, comm::Combine::Max);
  auto next = most.begin();
  for (double* number : profile_numbers(profile)) *number = *next++;
  return profile;
}

}  // namespace

void forget_profiles() {
  const std::optional<fs::path> directory = cache_directory();
  if (!directory) return;
  std::error_code ignored;
  std::vector<fs::path> profiles;
  for (const fs::directory_entry& entry : fs::directory_iterator(*directory, ignored)) {
    if (entry.path().filename().string().starts_with("profile-")) profiles.push_back(entry.path());
  }
  for (const fs::path& path : profiles) fs::remove(path, ignored);
}

std::string standing_kind(const Config& config, comm::Launcher& launcher) {
  const std::vector<std::string>& kinds = config.devices.kind;
  if (kinds.empty()) return "cpu";
  const bool alike = std::ranges::adjacent_find(kinds, std::not_equal_to()) == kinds.end();
  return alike || !launcher.devices() ? kinds.front() : "cpu";
}

SegmentProfile profile_segments(const Config& config, schedule::Recompute recompute,
                                comm::Launcher& launcher) {
  return profile_segments(config, recompute, launcher, standing_kind(config, launcher));
}

SegmentProfile profile_segments(const Config& config, schedule::Recompute recompute,
                                comm::Launcher& launcher, const std::string& kind) {
  if (config.devices.emulate) return emulated(config);
  const Config small = stage_by_stage(config, recompute, kind);
  SegmentProfile profile = find_or_measure(small, launcher);
  profile.parts = costs_of_all_blocks(profile.parts, small.model, config.model);
  return profile;
}

}  // namespace cleave::train
