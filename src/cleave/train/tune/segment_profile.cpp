#include "cleave/train/tune/segment_profile.h"

#include <algorithm>
#include <array>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <optional>
#include <vector>

#include <fmt/format.h>
#include <unistd.h>

#include "cleave/base/hash.h"
#include "cleave/base/version.h"
#include "cleave/engine/measure/link_profile.h"
#include "cleave/engine/measure/machine.h"
#include "cleave/engine/measure/profile.h"
#include "cleave/ops/accelerator.h"
#include "cleave/spec/trainable.h"
#include "cleave/train/step/random_source.h"
#include "cleave/train/step/run_optimizer.h"
#include "cleave/train/step/trainer.h"

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

/// Whether the same layers stand in both, so that measuring one is measuring the other.
bool are_alike(const SegmentSpec& a, const SegmentSpec& b) {
  return parameter_count(a) == parameter_count(b) &&
         std::ranges::equal(a.layers, b.layers, {}, &LayerSpec::kind, &LayerSpec::kind);
}

/// Whether the blocks of each module are alike, and learn or pass gradients on alike.
bool has_alike_blocks(const Graph& model) {
  const std::vector<bool> wants = wants_gradients(model);
  std::size_t first = model.segments.size();
  for (std::size_t s = 0; s < model.segments.size(); ++s) {
    const SegmentSpec& block = model.segments[s];
    if (!block.block) continue;
    if (first == model.segments.size() || block.module != model.segments[first].module) first = s;
    if (!are_alike(block, model.segments[first]) || wants[s] != wants[first] ||
        trained_count({&block, 1}) != trained_count({&model.segments[first], 1}))
      return false;
  }
  return true;
}

/// Blocks of each module that are measured where all are alike: something may go with the first and
/// with the last of a module that has neighbours.
constexpr std::int64_t kMeasuredOfModule = 2;

/// How many of a module's blocks are measured, if all of them are alike.
std::int64_t measured(std::int64_t blocks) {
  return std::min(blocks, kMeasuredOfModule);
}

ModelShape with_few_blocks(ModelShape model) {
  if (model.vision.layers == 0) {
    model.layers = 1;
    return model;
  }
  const std::int64_t tower = model.blocks() - model.layers;  // without what is not computed of it
  model.vision.layers += measured(tower) - tower;
  model.layers = measured(model.layers);
  return model;
}

/// The model, with few blocks where all are alike, on one device, each part that can be cut off a
/// stage of its own.
Config stage_by_stage(const Config& config, schedule::Recompute recompute,
                      const std::string& kind) {
  Config small = config;
  if (has_alike_blocks(model_of(config))) small.model = with_few_blocks(config.model);
  // One matrix serves both ends: two would be most of what measuring holds, on devices of which some
  // will have neither. What a pattern of model.train names must stay what it is.
  if (config.trained.empty()) small.model.tie_embeddings = true;
  small.train.batch = *config.train.microbatch;
  small.devices = {
      .count = 1, .threads = config.devices.threads, .transport = config.devices.transport};
  if (kind != "cpu") small.devices.kind = {kind};
  if (config.devices.accelerated()) small.numerics.exact = config.numerics.exact.value_or(true);
  small.parallel = {};
  small.parallel.chunks = small.model.blocks() + 2;
  small.parallel.schedule = "interleaved";
  small.parallel.partition.emplace(small.model.blocks() + 2, 1);
  small.parallel.partition->front() = 0;
  small.parallel.partition->back() = 0;
  small.parallel.recompute = std::vector{recompute};
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

SegmentProfile measure(const Config& small, comm::Launcher& launcher) {
  const engine::CompiledStep step = compile_step(small);
  comm::LocalLauncher here;
  comm::Communicator& alone = here.processes();
  engine::Device device(step, 0, static_cast<int>(small.devices.threads), alone);
  RandomSource source(1, step.model);
  RunOptimizer optimizer(small.train);
  optimizer.begin_step(0);
  const plan::Costs costs =
      engine::profile(step, device, {.source = &source, .optimizer = &optimizer}, alone,
                      {.steps = 1})
          .costs;
  const double parameters = static_cast<double>(trained_count(step.model.segments));
  SegmentProfile profile{.step = costs.steps[0] / parameters, .norm = costs.norm / parameters};
  for (const plan::StageCosts& stage : costs.stages)
    profile.parts.push_back({stage.forward, stage.input, stage.weight, stage.recompute});
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

/// Nothing if the system does not say where such files go.
std::optional<fs::path> cache_directory() {
  if (const char* cache = std::getenv("XDG_CACHE_HOME"); cache != nullptr && *cache != '\0')
    return fs::path(cache) / "cleave";
  if (const char* home = std::getenv("HOME"); home != nullptr && *home != '\0')
    return fs::path(home) / ".cache" / "cleave";
  return std::nullopt;
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

/// Every device takes its share of f, i and w per microbatch, whatever the model; or every layer
/// takes them per sequence.
SegmentProfile emulated(const Config& config) {
  const Emulation& times = *config.devices.emulate;
  const double stages = static_cast<double>(config.parallel.pipeline.value_or(1));
  const double share = times.per_layer ? static_cast<double>(*config.train.microbatch)
                                       : stages / static_cast<double>(config.model.blocks());
  SegmentProfile profile;
  profile.parts.assign(
      config.model.blocks() + 2,
      {.forward = times.f * share, .input = times.i * share, .weight = times.w * share});
  profile.parts.front() = profile.parts.back() = {};
  profile.link = {.latency = times.link, .credit = times.link};
  return profile;
}

/// [part] of `all` from those of `few`, of which all but the first and the last block of a module
/// stand for every block between them; one stands for all of a model without modules.
std::vector<plan::StageCosts> repeated(const std::vector<plan::StageCosts>& parts,
                                       const ModelShape& few, const ModelShape& all) {
  if (few.blocks() == all.blocks()) return parts;
  std::vector<plan::StageCosts> result = {parts.front()};
  const std::int64_t tower = few.blocks() - few.layers;
  if (tower > 0) {
    // What goes with the last block of the tower is the tower's end; what goes with the first of
    // the language model is the projector and the joint.
    result.insert(result.end(), all.blocks() - all.layers - 1, parts[1]);
    result.push_back(parts[tower]);
    result.push_back(parts[tower + 1]);
  }
  result.insert(result.end(), all.layers - (tower > 0 ? 1 : 0), parts[few.blocks()]);
  result.push_back(parts.back());
  return result;
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
  profile.parts = repeated(profile.parts, small.model, config.model);
  return profile;
}

}  // namespace cleave::train
